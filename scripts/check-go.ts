/**
 * `npm run check:go` generates the code of docs/examples/go and runs it against a service of this checkout. Needs Go,
 * which downloads the modules in go.sum.
 */
import { execFile } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../test/support/process.ts'
import { apiKey, startTestService } from '../test/support/service.ts'
import { findGo, goEnvironment } from './go.ts'

const root = join(import.meta.dirname, '..')
const expected = 'tomato 128.47\n'

const go = findGo()
if (go === undefined) console.log('skipped: Go is not installed')
else await check(go)

async function check(go: string): Promise<void> {
  await using directory = await temporaryDirectory()
  await using service = await startTestService()
  cpSync(join(root, 'docs/examples/go'), directory.path, { recursive: true })
  const run = async (program: string, ...args: readonly string[]): Promise<string> => {
    // Asynchronous, because the service runs in this process.
    return (await promisify(execFile)(program, args, { cwd: directory.path, env: goEnvironment(go) })).stdout
  }
  const buf = join(root, 'node_modules/@bufbuild/buf/bin/buf')
  await run(process.execPath, buf, 'generate', join(root, 'proto'), '--template', 'buf.gen.yaml')
  const printed = await run(go, 'run', '.', service.grpcAddress, apiKey)
  if (printed !== expected) throw new Error(`the Go program printed:\n${printed}instead of:\n${expected}`)
  console.log('the Go program works')
}
