/**
 * `npm run verify:package` packs the project, installs the package into an empty project and uses it as a new user
 * would: the command line, the service, search threads, the client and its types. It uses the Node of the machine,
 * which may be an older version, and npx. Node strips no types under node_modules, and src/ is not in the package, so
 * this finds errors that a checkout hides. Needs the npm registry.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

const root = join(import.meta.dirname, '..')
const project = mkdtempSync(join(tmpdir(), 'vicinal-package-'))
const data = join(root, 'demo/data')
const query = join(root, 'demo/queries/beaked-whale.json')
/** The environment without npm's additions for this script, most importantly the Node of the checkout. */
const stranger: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !name.startsWith('npm_') || name === 'npm_config_registry',
    ),
  ),
  npm_config_prefix: join(project, 'global'),
  PATH: process.env
    .PATH!.split(delimiter)
    .filter((directory) => !directory.includes('node_modules'))
    .join(delimiter),
}

/** Without Node. A third of it is lmdb, which has binaries for four kinds of Node. */
const installedMaxKilobytes = 60_000

try {
  install()
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  assert.equal(run('npx', ['--no-install', 'vicinal', '--version'], project), `${version}\n`)
  assert.match(vicinal('--help'), /Usage: vicinal/)
  await useService()
  await stopWithNpx()
  checkTypes()
  console.log(`the package of ${version} works`)
} finally {
  rmSync(project, { recursive: true, force: true })
}

function install(): void {
  run('npm', ['pack', '--workspaces', '--include-workspace-root', '--pack-destination', project], root)
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'stranger', private: true }))
  npmInstall(archiveOf('vicinal'))
  assert.equal(existsSync(join(project, 'node_modules/.bin/node')), false, 'npm scripts keep their Node')
  const kilobytes = Number.parseInt(run('du', ['-sk', 'node_modules'], project), 10)
  assert.ok(kilobytes < installedMaxKilobytes, `the package and its dependencies take ${kilobytes} kB`)
  installNode()
  npmInstall(archiveOf('vicinal-client'))
}

function archiveOf(name: string): string {
  return readdirSync(project).find((file) => file.startsWith(name) && /^-\d/.test(file.slice(name.length)))!
}

/** An older Node of the machine is refused, until vicinal-node is installed. */
function installNode(): void {
  const [major] = run('node', ['-p', 'process.versions.node'], project).split('.')
  if (Number(major) >= 24) return
  const { status, stderr } = spawnSync('npx', ['--no-install', 'vicinal', '--version'], {
    cwd: project,
    encoding: 'utf8',
    env: stranger,
  })
  assert.equal(status, 1)
  assert.match(stderr, /^vicinal needs Node 24 or later.*npm install --global vicinal-node/)
  npmInstall('--global', archiveOf('vicinal-node'))
}

function npmInstall(...args: readonly string[]): void {
  const { status, stderr } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...args], {
    cwd: project,
    encoding: 'utf8',
    env: stranger,
  })
  assert.equal(status, 0, stderr)
  assert.doesNotMatch(stderr, /EBADENGINE/)
}

async function useService(): Promise<void> {
  const environment = { DATA_DIR: join(project, 'data'), GRPC_PORT: '0', HTTP_PORT: '0' }
  const service = start(join(project, 'node_modules/.bin/vicinal'), ['serve'], environment)
  const ended = once(service, 'exit')
  const lines = await ready(service)
  const grpc = `localhost:${lines.find(({ msg }) => msg === 'gRPC listens')!.port}`
  const http = lines.find(({ msg }) => msg === 'HTTP listens')!.url!
  try {
    const connection = ['--grpc', grpc, '--api-key-file', join(project, 'data/api-key')]
    const glosses = join(data, 'wordnet-glosses')
    const rows = ['--dimension', '512', '--normalize', '--texts', `${glosses}.jsonl`]
    const journal = ['--journal', join(project, 'journal')]
    assert.match(vicinal('import', `${glosses}.i8`, ...rows, ...journal, ...connection), /^2046 points/)
    assert.match(vicinal('query', '--vector-file', query, ...connection), /whale/)
    assert.match(vicinal('stats', '--http', http), /points +2046/)
    assert.match(await (await fetch(`${http}/docs/openapi.yaml`)).text(), /^openapi: 3/)
    assert.match(await (await fetch(`${http}/console/`)).text(), /src="\.\/assets\/index-/)
    assert.match(client(grpc, http), /whale/)
  } finally {
    service.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  }
}

/** Checks that a service started by npx ends with npx, and releases its port and data directory. */
async function stopWithNpx(): Promise<void> {
  const environment = { DATA_DIR: join(project, 'data-npx'), GRPC_PORT: '0', HTTP_PORT: '0' }
  const port = await startAndStop(environment)
  await startAndStop({ ...environment, HTTP_PORT: port })
}

/** Resolves to the port of the service when its data directory is free. */
async function startAndStop(environment: Record<string, string>): Promise<string> {
  const npx = start('npx', ['--no-install', 'vicinal', 'serve'], environment)
  const { url } = (await ready(npx)).find(({ msg }) => msg === 'HTTP listens')!
  npx.kill('SIGTERM')
  const lock = join(environment.DATA_DIR!, 'lock.pid')
  const startedMs = performance.now()
  while (existsSync(lock)) {
    assert.ok(
      performance.now() - startedMs < 60_000,
      'the service continued after the npx that started it ended',
    )
    await delay(50)
  }
  return new URL(url!).port
}

function start(command: string, args: readonly string[], environment: Record<string, string>): ChildProcess {
  return spawn(command, args, {
    cwd: project,
    env: { ...stranger, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

interface Line {
  readonly msg: string
  readonly port?: number
  readonly url?: string
}

/** The log lines of a service until it is ready. */
async function ready(service: ChildProcess): Promise<Line[]> {
  const lines: Line[] = []
  for await (const line of createInterface(service.stdout!)) {
    lines.push(JSON.parse(line) as Line)
    if (lines.at(-1)!.msg === 'ready') break
  }
  assert.equal(lines.at(-1)?.msg, 'ready', 'the service has exited')
  service.stdout!.resume()
  return lines
}

/** A user's program that searches over gRPC and reads the found points over HTTP. */
function client(address: string, baseUrl: string): string {
  const program = `
    import { readFileSync } from 'node:fs'
    import { createHttpClient } from 'vicinal-client'
    import { createGrpcClient } from 'vicinal-client/grpc'
    const apiKey = readFileSync('data/api-key', 'utf8').trim()
    const grpc = createGrpcClient({ address: '${address}', apiKey })
    const { vector } = JSON.parse(readFileSync('${query}', 'utf8'))
    const [id] = await grpc.search({ vector, metric: 'Cosine', limit: 1 })
    await grpc.close()
    console.log((await createHttpClient({ baseUrl: '${baseUrl}' }).get(id)).payload.content)
  `
  writeFileSync(join(project, 'client.mjs'), program)
  return run(process.execPath, ['client.mjs'], project)
}

function checkTypes(): void {
  const program = `
    import { createHttpClient, DatabaseError, type VectorClient } from 'vicinal-client'
    const client: VectorClient = createHttpClient({ baseUrl: 'http://127.0.0.1:3000' })
    export const ids: Promise<readonly string[]> = client.search({ vector: [1], metric: 'Cosine', limit: 1 })
    export const isMissing = (error: unknown): boolean => error instanceof DatabaseError && error.reason === 'not_found'
  `
  writeFileSync(join(project, 'client.mts'), program)
  const tsc = join(root, 'node_modules/.bin/tsc')
  run(
    tsc,
    ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', '', 'client.mts'],
    project,
  )
}

function vicinal(...args: readonly string[]): string {
  return run(join(project, 'node_modules/.bin/vicinal'), args, project)
}

function run(command: string, args: readonly string[], directory: string): string {
  return execFileSync(command, args, {
    cwd: directory,
    encoding: 'utf8',
    env: directory === project ? stranger : process.env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}
