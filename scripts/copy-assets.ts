/**
 * Puts beside the compiled sources, in `dist` or the directory that is given, what the compiler leaves behind:
 * kernels, OpenAPI, generated types.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const target = process.argv[2] ?? join(root, 'dist')
for (const path of ['kernels/generated', 'client/generated', 'grpc/generated', 'http/openapi.yaml']) {
  cpSync(join(root, 'src', path), join(target, path), { recursive: true })
}
