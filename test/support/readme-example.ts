import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Runs the first TypeScript example of a package's README against a service, in the directory of the package. The
 * example imports the package by name, so it must be built.
 *
 * @returns its output, and the output that the README shows
 */
export async function runReadmeExample(
  packageDir: string,
  httpUrl: string,
): Promise<{ readonly printed: string; readonly expected: string }> {
  const readme = await readFile(join(packageDir, 'README.md'), 'utf8')
  const [, example, expected] = /```ts\n(.*?)```\n\n```text\n(.*?)```/s.exec(readme) ?? []
  if (example === undefined || expected === undefined) throw new Error(`no example in ${packageDir}`)
  const program = example.replace('http://127.0.0.1:3000', httpUrl)
  const args = ['--input-type=module-typescript', '--disable-warning=ExperimentalWarning', '-e', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: packageDir })
  return { printed: stdout, expected }
}
