/**
 * `npm test` runs the tests. Arguments, including file names, are passed to `node --test`. Without a file, all tests
 * run. Some tests kill a service at every nth step; with `--all-steps`, they do so at every step. The test processes
 * share a compile cache.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The time limit of a test or suite that does not set its own. */
const testTimeoutMs = 10 * 60_000

const root = join(import.meta.dirname, '..')
const all = [
  ...['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.ts'],
  ...['console/src/**/*.test.ts', 'console/test/**/*.test.ts'],
]
const args = process.argv.slice(2).filter((arg) => arg !== '--all-steps')
const isEveryStep = args.length < process.argv.length - 2
const files = args.some((arg) => !arg.startsWith('-')) ? [] : all
const options = ['--test', '--test-concurrency=3', '--test-reporter=spec', `--test-timeout=${testTimeoutMs}`]
// A hanging file fails with its name instead of blocking the whole run.
options.push(`--import=${pathToFileURL(join(root, 'scripts/end-hung-tests.ts'))}`)
const { status, signal } = spawnSync(process.execPath, [...options, ...args, ...files], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node-compile'),
    ...(isEveryStep ? { ALL_STEPS: '1' } : {}),
  },
})
if (signal !== null) process.kill(process.pid, signal)
process.exitCode = status ?? 1
