/**
 * Copies the files that the compiler does not emit (kernels, OpenAPI, generated types, the console) next to the
 * compiled sources in `dist` or the given directory.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const paths = [
  'kernels/generated',
  'messages/generated',
  'server/grpc/generated',
  'server/http/generated',
  'server/http/openapi.yaml',
]
const target = process.argv[2] ?? join(root, 'dist')
for (const path of paths) {
  cpSync(join(root, 'src', path), join(target, path), { recursive: true })
}
