import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Set in runs of many files: the directory of bundles of scripts/bundle-programs.ts, which start faster. */
const { VICINAL_TEST_BUNDLES: bundles } = process.env

/** The file to start for a program of ours, by the path of its source from the root. */
export function programFile(path: string): string {
  return bundles === undefined ? join(root, path) : join(bundles, bundledName(path))
}

export function bundledName(path: string): string {
  return path.replaceAll('/', '-').replace(/\.ts$/, '.js')
}

/** `vicinal` itself. */
export const vicinal: string = programFile('src/cli/main.ts')
