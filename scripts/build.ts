/** `npm run build` builds the published package into an empty `dist`, unless the one there is of the same sources. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildIfOutdated } from './up-to-date.ts'

const root = join(import.meta.dirname, '..')
run('scripts/build-generated.ts')
run('scripts/build-docs-page.ts')
run('scripts/build-console.ts')
buildIfOutdated(
  'dist',
  ['src', 'proto', 'docs', 'console', 'scripts', 'package.json', 'package-lock.json', 'tsconfig.build.json'],
  ['dist/cli/main.js', 'dist/packages'],
  () => {
    rmSync(join(root, 'dist'), { recursive: true, force: true })
    run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
    run('scripts/copy-assets.ts')
    run('scripts/bundle-dependencies.ts')
  },
)

function run(script: string, ...args: readonly string[]): void {
  execFileSync(process.execPath, [join(root, script), ...args], { cwd: root, stdio: 'inherit' })
}
