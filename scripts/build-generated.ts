/**
 * Generates the files that the sources need but git does not contain: the WebAssembly kernels from AssemblyScript, and
 * the protobuf types and descriptors from proto/. Runs after every `npm ci` and `npm install` in a checkout.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { buildKernels } from './build-kernels.ts'
import { buildIfOutdated } from './up-to-date.ts'
import { provideExec } from './windows-exec.ts'

const root = join(import.meta.dirname, '..')
const binaries = join(root, 'node_modules', '.bin')

provideExec(binaries)
buildIfOutdated(
  'generated',
  [
    ...['proto', 'src/kernels', 'buf.gen.yaml', 'package-lock.json'],
    ...['scripts/build-generated.ts', 'scripts/build-kernels.ts', 'scripts/memory-64.ts'],
  ],
  ['src/kernels/generated', 'src/messages/generated', 'src/server/grpc/generated'],
  () => {
    buildKernels(root)
    buildMessages()
  },
)

function buildMessages(): void {
  for (const part of ['messages', 'server/grpc']) {
    mkdirSync(join(root, 'src', part, 'generated'), { recursive: true })
  }
  buf('generate')
  buf(
    'build',
    'proto',
    '--as-file-descriptor-set',
    '--exclude-source-info',
    // Callers of reflection see the interface, not the messages between nodes.
    '--path=proto/vectordb.proto',
    '--output=src/server/grpc/generated/descriptors.binpb',
  )
}

function buf(...command: readonly string[]): void {
  execFileSync(process.execPath, [join(root, 'node_modules/@bufbuild/buf/bin/buf'), ...command], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, PATH: `${binaries}${delimiter}${process.env.PATH}` },
  })
}
