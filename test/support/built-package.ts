import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')
const execute = promisify(execFile)

/**
 * The package as npm would install it, compiled from the sources as they are, within the checkout: so that it finds
 * its dependencies, and not a `dist` that somebody made earlier.
 */
export async function buildPackage(): Promise<AsyncDisposable & { readonly path: string }> {
  mkdirSync(join(root, 'build'), { recursive: true })
  const path = mkdtempSync(join(root, 'build/package-'))
  const dist = join(path, 'dist')
  copyFileSync(join(root, 'package.json'), join(path, 'package.json'))
  await execute(join(root, 'node_modules/.bin/tsc'), [
    '-p',
    join(root, 'tsconfig.build.json'),
    '--outDir',
    dist,
  ])
  await execute(process.execPath, [join(root, 'scripts/copy-assets.ts'), dist])
  // As npm does with what `bin` names.
  chmodSync(join(dist, 'cli/main.js'), 0o755)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
