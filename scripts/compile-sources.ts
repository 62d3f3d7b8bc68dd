/** Loads the sources of the service, so that Node's cache of compiled sources has all of them. */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(import.meta.dirname, '..')
const main = 'src/cli/main.ts'
const exclude = ['**/*.test.ts', '**/assembly/**', main]
for (const file of globSync('src/**/*.ts', { cwd: root, exclude })) {
  // Modules of threads fail without a parent, after they were compiled.
  await import(pathToFileURL(join(root, file)).href).catch(() => {})
}
process.exit()
