import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { benchFolder } from './options.ts'

/**
 * Installs the packages of a folder that has its own package.json, unless they are installed. The libraries that
 * Vicinal is compared with are not dependencies of the project.
 */
export function installPackages(folder: string, notice: string): void {
  if (areInstalled(folder)) return
  console.error(notice)
  const { status } = spawnSync('npm', ['ci'], { cwd: folder, stdio: ['ignore', 2, 2] })
  const name = relative(dirname(benchFolder), folder)
  if (status !== 0) throw new Error(`npm ci in ${name} failed: see above`)
}

/** Whether all packages are installed, including any added since the last installation. */
function areInstalled(folder: string): boolean {
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  return ['.package-lock.json', ...Object.keys(dependencies)].every((name) =>
    existsSync(join(folder, 'node_modules', name)),
  )
}
