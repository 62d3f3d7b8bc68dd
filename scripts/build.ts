/**
 * `npm run build` builds the published package into an empty `dist`, unless the one there is of the same sources. It is
 * then copied to the directory that is given, if any.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildIfOutdated, exclusively } from './up-to-date.ts'

const root = join(import.meta.dirname, '..')
run('scripts/build-generated.ts')
run('scripts/build-docs-page.ts')
run('scripts/build-console.ts')
buildIfOutdated(
  'dist',
  [
    ...['src', 'scripts', 'package.json', 'package-lock.json', 'console/package-lock.json'],
    ...['tsconfig.json', 'tsconfig.build.json'],
    ...['kernels', 'messages', 'server/grpc', 'server/http'].map((part) => `src/${part}/generated`),
  ],
  ['dist'],
  () => {
    rmSync(join(root, 'dist'), { recursive: true, force: true })
    run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
    run('scripts/copy-assets.ts')
    run('scripts/bundle-dependencies.ts')
  },
)
const copy = process.argv[2]
if (copy !== undefined) exclusively(() => cpSync(join(root, 'dist'), copy, { recursive: true }))

function run(script: string, ...args: readonly string[]): void {
  execFileSync(process.execPath, [join(root, script), ...args], { cwd: root, stdio: 'inherit' })
}
