import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')
const execute = promisify(execFile)

/**
 * Compiles the current sources into the package that npm would install. It is inside the checkout, so that it finds its
 * dependencies, and never uses a `dist` from an earlier build.
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
  for (const script of ['copy-assets.ts', 'bundle-dependencies.ts']) {
    await execute(process.execPath, [join(root, 'scripts', script), dist])
  }
  // npm does the same with the files that `bin` names.
  chmodSync(join(dist, 'cli/main.js'), 0o755)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
