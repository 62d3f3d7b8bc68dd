import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../..')

/**
 * A copy of the package that npm would install, of the current sources. It is inside the checkout, so that it finds its
 * dependencies.
 */
export async function buildPackage(): Promise<AsyncDisposable & { readonly path: string }> {
  mkdirSync(join(root, 'build'), { recursive: true })
  const path = mkdtempSync(join(root, 'build/package-'))
  copyFileSync(join(root, 'package.json'), join(path, 'package.json'))
  await promisify(execFile)(process.execPath, [join(root, 'scripts/build.ts'), join(path, 'dist')])
  // npm does the same with the files that `bin` names.
  chmodSync(join(path, 'dist/cli/main.js'), 0o755)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
