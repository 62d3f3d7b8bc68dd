/** Puts beside the compiled sources what the compiler leaves behind: kernels, OpenAPI, generated types. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
for (const path of ['kernels/generated', 'client/generated', 'grpc/generated', 'http/openapi.yaml']) {
  cpSync(join(root, 'src', path), join(root, 'dist', path), { recursive: true })
}
