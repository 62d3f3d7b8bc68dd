import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** The file to start for a program of ours, by the path of its source from the root. */
export function programFile(path: string): string {
  return join(root, path)
}

/** `vicinal` itself. */
export const vicinal: string = programFile('src/cli/main.ts')
