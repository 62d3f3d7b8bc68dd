/**
 * Puts the files of the page at /docs into src/server/http/generated/docs, from where the service serves them: Swagger UI, the
 * console's icon, and the OpenAPI description as JSON, so that the service needs no reader of YAML.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { buildIfOutdated } from './up-to-date.ts'

const root = join(import.meta.dirname, '..')
const source = join(root, 'node_modules/@fastify/swagger-ui/static')
const target = join(root, 'src/server/http/generated/docs')
const description = 'src/server/http/openapi.yaml'
const icon = 'console/public/icon.svg'

buildIfOutdated(
  'docs-page',
  [description, icon, 'scripts/build-docs-page.ts', 'package-lock.json'],
  ['src/server/http/generated/docs'],
  () => {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(join(target, 'static/theme'), { recursive: true })
    for (const file of ['index.css', 'swagger-ui.css', 'swagger-ui-bundle.js']) {
      cpSync(join(source, file), join(target, 'static', file))
    }
    cpSync(join(root, icon), join(target, 'static/theme/icon.svg'))
    const document: unknown = parse(readFileSync(join(root, description), 'utf8'))
    writeFileSync(join(target, 'openapi.json'), JSON.stringify(document))
  },
)
