/**
 * `npm run check:integrations` installs the TypeScript integrations from their lock files, checks their types and runs
 * their tests against a service of this checkout. Prints little unless something fails. Needs the npm registry.
 */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { npmCommand } from './npm-command.ts'

/** Far more than the report of all tests needs. */
const outputBytesMax = 16 * 1024 * 1024

const root = join(import.meta.dirname, '..')
const packages = globSync('integrations/*/package.json', { cwd: root }).map((file) => join(root, file, '..'))

// The integrations depend on the built client.
execFileSync(process.execPath, [join(root, 'clients/typescript/build.ts')], { stdio: 'inherit' })
const failures = (await Promise.all(packages.map(check))).filter((failure) => failure !== undefined)
for (const failure of failures) console.error(failure)
if (packages.length === 0) failures.push('there are no integrations')
console.log(`${packages.length - failures.length} of ${packages.length} integrations work`)
process.exitCode = failures.length === 0 ? 0 : 1

/** Checks an integration. @returns the first step that failed, with its output; undefined if all succeeded */
async function check(directory: string): Promise<string | undefined> {
  const steps = [['ci', '--no-audit', '--no-fund'], ['run', 'typecheck'], ['test']]
  for (const step of steps) {
    const failure = await npm(directory, step)
    if (failure !== undefined) return `${directory}: npm ${step.join(' ')}\n${failure}`
  }
  return existsSync(join(directory, 'dist/index.js')) ? undefined : `${directory}: no dist/index.js was built`
}

async function npm(directory: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const [command, all] = npmCommand(args)
    await promisify(execFile)(command, all, { cwd: directory, maxBuffer: outputBytesMax })
    return undefined
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout?: string; stderr?: string; code?: unknown }
    // Without an exit code, npm could not be started.
    if (typeof code !== 'number') throw error
    return `${stdout}${stderr}`
  }
}
