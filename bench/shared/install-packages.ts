import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { benchFolder } from './options.ts'

/**
 * Installs the packages of a folder with a package.json of its own, unless they are installed. What Vicinal is
 * compared with is no dependency of the project.
 */
export function installPackages(folder: string, notice: string): void {
  if (areInstalled(folder)) return
  console.error(notice)
  const { status } = spawnSync('npm', ['ci'], { cwd: folder, stdio: ['ignore', 2, 2] })
  const name = relative(dirname(benchFolder), folder)
  if (status !== 0) throw new Error(`npm ci in ${name} failed: see above`)
}

/** Also of packages that were added since the others were installed. */
function areInstalled(folder: string): boolean {
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  return ['.package-lock.json', ...Object.keys(dependencies)].every((name) =>
    existsSync(join(folder, 'node_modules', name)),
  )
}
