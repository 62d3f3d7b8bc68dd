import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { it } from 'node:test'
import { buildPackage } from '../support/built-package.ts'

/**
 * Suites that run with one thread in `npm test`, here with two, which are those of the built package: they start in
 * half of the time. The contract runs there with one and with three, and so does what one thread must tell all others.
 */
const suites = [
  ...['model', 'fuzz/fuzz', 'crash/crash', 'snapshot', 'http-server', 'bodies', 'overload'],
  ...['extensions-points', 'extensions-search', 'extensions-lists', 'extensions-http'],
]

/**
 * What threads do not change: parts that start no service, snapshots that no service sends, and indexes after a kill.
 * The model is tested through both transports alternately, since each must see what the other wrote.
 */
const sameOnThreads = [
  '/^the check against the model$/',
  '/^match the model through (engine|gRPC|HTTP),/',
  '/^find nearly all results of the model/',
  '/^(a snapshot|a snapshot file|a restored service|the database id|kill -9)$/',
  '/^finds the results of an exact scan through an index whose checkpoint was interrupted$/',
  '/^the fuzz test$/',
]

it('a service on two threads passes the suites of a service on one', async () => {
  await using built = await buildPackage()
  const settings = { VICINAL_TEST_SERVING_THREADS: '2', VICINAL_TEST_BUILT: join(built.path, 'dist') }
  await pass(suites, settings, ...sameOnThreads.map((pattern) => `--test-skip-pattern=${pattern}`))
})

it('a service passes the suites of both transports over HTTP/2, too', async () => {
  await pass(['extensions-points', 'extensions-search', 'extensions-lists'], { VICINAL_TEST_HTTP2: '1' })
})

async function pass(
  names: readonly string[],
  settings: Readonly<Record<string, string>>,
  ...flags: readonly string[]
): Promise<void> {
  const root = join(import.meta.dirname, '../..')
  const files = names.map((suite) => `test/${suite}.test.ts`)
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env
  const run = spawn(process.execPath, [join(root, 'scripts/run-tests.ts'), ...flags, ...files], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...environment, ...settings },
  })
  const output: string[] = []
  run.stdout.setEncoding('utf8').on('data', (text: string) => output.push(text))
  const [code] = (await once(run, 'exit')) as [number]
  assert.equal(code, 0, output.join(''))
}
