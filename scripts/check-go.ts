/**
 * `npm run check:go` generates the code of docs/examples/go and runs it against a service of this checkout. Needs Go,
 * which downloads the modules in go.sum.
 */
import { execFile, spawnSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../test/support/process.ts'
import { apiKey, startTestService } from '../test/support/service.ts'

const root = join(import.meta.dirname, '..')
const expected = 'tomato 128.47\n'

if (spawnSync('go', ['version']).status === 0) await check()
else console.log('skipped: Go is not installed')

async function check(): Promise<void> {
  await using directory = await temporaryDirectory()
  await using service = await startTestService()
  cpSync(join(root, 'docs/examples/go'), directory.path, { recursive: true })
  const buf = join(root, 'node_modules/@bufbuild/buf/bin/buf')
  const generate = [buf, 'generate', join(root, 'proto'), '--template', 'buf.gen.yaml']
  await run(process.execPath, generate, directory.path)
  // As the servers of tests are built, so that Go compiles its own packages only once for all.
  const printed = await run('go', ['run', '-trimpath', '.', service.grpcAddress, apiKey], directory.path)
  if (printed !== expected) throw new Error(`the Go program printed:\n${printed}instead of:\n${expected}`)
  console.log('the Go program works')
}

/** Runs a program and returns its output. Asynchronous, because the service runs in this process. */
async function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  return (await promisify(execFile)(program, args, { cwd })).stdout
}
