/**
 * Makes what the sources need and git does not hold: the WebAssembly kernels from AssemblyScript, and the
 * protobuf types from proto/. Runs after every `npm ci` and `npm install` of a checkout.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { buildKernels } from './build-kernels.ts'

const root = join(import.meta.dirname, '..')
const binaries = join(root, 'node_modules', '.bin')

buildKernels(root)
mkdirSync(join(root, 'src/client/generated'), { recursive: true })
execFileSync(join(binaries, 'buf'), ['generate'], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, PATH: `${binaries}${delimiter}${process.env.PATH}` },
})
