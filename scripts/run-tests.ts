/**
 * Runs the tests: `npm test`. Arguments go to `node --test`, file names among them; without a file, all tests run.
 * `--all-steps` makes tests that kill a service at every nth step do so at every step. What the processes of the tests
 * compile is kept for the next ones.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Of a test or a suite, unless it has one of its own. */
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
// What hangs fails by its name, and does not cost the whole run.
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
