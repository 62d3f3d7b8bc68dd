import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { npmCommand } from '../../scripts/npm-command.ts'
import { temporaryDirectory } from './process.ts'

const root = join(import.meta.dirname, '../..')
const execute = promisify(execFile)

/** An otherwise empty project with the packed TypeScript client installed, as a user would have it. */
export async function clientProject(): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await temporaryDirectory()
  const source = join(directory.path, 'source')
  const project = join(directory.path, 'project')
  mkdirSync(source)
  mkdirSync(project)
  for (const name of ['package.json', 'README.md']) {
    cpSync(join(root, 'clients/typescript', name), join(source, name))
  }
  await execute(process.execPath, [join(root, 'clients/typescript/build.ts'), join(source, 'dist')])
  await npm(source, 'pack', '--ignore-scripts', '--pack-destination', project)
  const archive = readdirSync(project).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'stranger', private: true }))
  await npm(project, 'install', '--offline', '--no-audit', '--no-fund', archive)
  return { path: project, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
}

async function npm(cwd: string, ...args: readonly string[]): Promise<void> {
  const [command, all] = npmCommand(args)
  await execute(command, all, { cwd })
}
