/** `npm run build` builds the published package into an empty `dist`. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
rmSync(join(root, 'dist'), { recursive: true, force: true })
run('scripts/build-generated.ts')
run('scripts/build-docs-page.ts')
run('scripts/build-console.ts')
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
run('scripts/copy-assets.ts')
run('scripts/bundle-dependencies.ts')

function run(script: string, ...args: readonly string[]): void {
  execFileSync(process.execPath, [join(root, script), ...args], { cwd: root, stdio: 'inherit' })
}
