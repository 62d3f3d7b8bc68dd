import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const root = join(import.meta.dirname, '..')

/**
 * Calls `build` unless all outputs exist and are newer than every input. `npm pack` runs a build and `npm run prepare`,
 * which have steps in common.
 *
 * @param inputs files and folders, by their paths from the root
 * @param outputs like `inputs`
 */
export function buildIfOutdated(
  name: string,
  inputs: readonly string[],
  outputs: readonly string[],
  build: () => void,
): void {
  const stamp = join(root, 'node_modules/.cache/built', name)
  const isWhole = [stamp, ...outputs.map((path) => join(root, path))].every((path) => existsSync(path))
  if (isWhole && newest(inputs.map((path) => join(root, path))) < statSync(stamp).mtimeMs) return
  const startedMs = Date.now()
  build()
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, '')
  // An input that changes during the build is newer than the stamp.
  utimesSync(stamp, startedMs / 1000, startedMs / 1000)
}

/** The time of the last change. That of a folder changes when a file in it is added or removed. */
function newest(paths: readonly string[]): number {
  return Math.max(
    ...paths.map((path) => {
      const stat = statSync(path)
      if (!stat.isDirectory()) return stat.mtimeMs
      const names = readdirSync(path).filter((name) => !['node_modules', 'generated'].includes(name))
      return Math.max(stat.mtimeMs, newest(names.map((name) => join(path, name))))
    }),
  )
}
