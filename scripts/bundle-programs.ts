/**
 * Bundles the programs that tests start as child processes into a directory: a service of one bundle starts with two
 * thirds of the processor time that four hundred modules take, and the suite starts far more than a hundred. Their
 * threads, which load few modules, and their files are those of the sources.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { bundledName } from '../test/support/programs.ts'

const root = join(import.meta.dirname, '..')
const target = process.argv[2]!
const main = 'src/cli/main.ts'
const programs = [
  main,
  'test/hard/serve.ts',
  'test/support/committing-child.ts',
  'test/support/moving-child.ts',
  'test/support/updating-child.ts',
]

/** Rolldown comes with the console's Vite. */
const requireOfConsole = createRequire(join(root, 'console/node_modules/vite/package.json'))
const { build } = (await import(pathToFileURL(requireOfConsole.resolve('rolldown')).href)) as {
  build(options: object): Promise<unknown>
}
await build({
  input: Object.fromEntries(programs.map((path) => [bundledName(path), join(root, path)])),
  platform: 'node',
  external: /^(lmdb|pino-pretty)/,
  plugins: [{ name: 'paths', transform: keepPaths }],
  output: { dir: target, cleanDir: true, entryFileNames: '[name]' },
  logLevel: 'warn',
})
await compile()

/** Lets a module of a bundle find files beside its source. */
function keepPaths(code: string, path: string): string | undefined {
  if (!code.includes('import.meta.')) return undefined
  return code
    .replaceAll('import.meta.filename', JSON.stringify(path))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
}

/** Starts and stops a service: a process writes what it has compiled to Node's cache when it exits, not when it is killed. */
async function compile(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-bundle-'))
  const service = spawn(process.execPath, [join(target, bundledName(main)), 'serve'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, DATA_DIR: directory, GRPC_PORT: '0', HTTP_PORT: '0', THREADS: '1' },
  })
  const ended = once(service, 'exit')
  createInterface(service.stdout).on('line', (line) => {
    if (line.includes('"ready"')) service.kill('SIGTERM')
  })
  await ended
  rmSync(directory, { recursive: true })
}
