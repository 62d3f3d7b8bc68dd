/**
 * Packs the project, installs the package into an empty one and uses it there as a stranger would: command
 * line, service, search threads, client and its types. Under node_modules Node strips no types and nothing
 * of src/ is there, so this finds what a checkout forgives. Needs the npm registry: `npm run verify:package`.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const root = join(import.meta.dirname, '..')
const project = mkdtempSync(join(tmpdir(), 'vicinal-package-'))
const data = join(root, 'demo/data')
const query = join(root, 'demo/queries/beaked-whale.json')

try {
  install()
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  assert.equal(vicinal('--version'), `${version}\n`)
  assert.match(vicinal('--help'), /Usage: vicinal/)
  await useService()
  checkTypes()
  console.log(`the package of ${version} works`)
} finally {
  rmSync(project, { recursive: true, force: true })
}

function install(): void {
  run('npm', ['pack', '--pack-destination', project], root)
  const archive = readdirSync(project).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'stranger', private: true }))
  run('npm', ['install', '--no-audit', '--no-fund', archive], project)
}

async function useService(): Promise<void> {
  const environment = { ...process.env, DATA_DIR: join(project, 'data'), GRPC_PORT: '0', HTTP_PORT: '0' }
  // Without npx between: npm does not pass a SIGTERM on to what it runs.
  const service = spawn(process.execPath, ['node_modules/vicinal/dist/cli/main.js'], {
    cwd: project,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(service, 'exit')
  const lines: { msg: string; port?: number; url?: string }[] = []
  for await (const line of createInterface(service.stdout)) {
    lines.push(JSON.parse(line) as { msg: string })
    if (lines.at(-1)!.msg === 'ready') break
  }
  assert.equal(lines.at(-1)?.msg, 'ready', 'the service has ended')
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
    assert.match(client(grpc, http), /whale/)
  } finally {
    service.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  }
}

/** A program of the stranger's that searches over gRPC and reads what it found over HTTP. */
function client(address: string, baseUrl: string): string {
  const program = `
    import { readFileSync } from 'node:fs'
    import { createGrpcClient, createHttpClient } from 'vicinal/client'
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
    import { createHttpClient, DatabaseError, type VectorClient } from 'vicinal/client'
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
  return run('npx', ['--no-install', 'vicinal', ...args], project)
}

function run(command: string, args: readonly string[], directory: string): string {
  return execFileSync(command, args, {
    cwd: directory,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}
