/**
 * Compiles the client package from the sources of the service, whose command line uses the same client. The package has
 * only the client and the modules that it imports. Takes the output directory; `dist` next to this file by default.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildIfOutdated } from '../../scripts/up-to-date.ts'

const here = import.meta.dirname
const root = join(here, '../..')
const target = process.argv[2] ?? join(here, 'dist')
const compile = (): void => {
  rmSync(target, { recursive: true, force: true })
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  execFileSync(process.execPath, [tsc, '-p', here, '--outDir', target], { stdio: 'inherit' })
  mkdirSync(join(target, 'messages/generated'), { recursive: true })
  for (const name of ['vectordb_pb.js', 'vectordb_pb.d.ts']) {
    copyFileSync(join(root, 'src/messages/generated', name), join(target, 'messages/generated', name))
  }
}
if (process.argv[2] !== undefined) compile()
else {
  const inputs = [
    'src/client',
    'src/messages',
    'src/base',
    'src/api',
    'src/messages/generated',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'clients/typescript/tsconfig.json',
    'clients/typescript/build.ts',
    'LICENSE',
  ]
  buildIfOutdated('client', inputs, ['clients/typescript/dist', 'clients/typescript/LICENSE'], () => {
    compile()
    copyFileSync(join(root, 'LICENSE'), join(here, 'LICENSE'))
  })
}
