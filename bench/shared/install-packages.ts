import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { benchFolder } from './options.ts'

/**
 * Installs the packages of a folder with a package.json of its own, unless they are installed. What Vicinal is
 * compared with is no dependency of the project.
 */
export function installPackages(folder: string, notice: string): void {
  if (existsSync(join(folder, 'node_modules/.package-lock.json'))) return
  console.error(notice)
  const { status } = spawnSync('npm', ['ci'], { cwd: folder, stdio: ['ignore', 2, 2] })
  const name = relative(dirname(benchFolder), folder)
  if (status !== 0) throw new Error(`npm ci in ${name} failed: see above`)
}
