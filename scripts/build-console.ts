/**
 * Builds the console into src/server/http/generated/console, from where the service serves it. The console is a separate
 * package with its own lock file, so its build tools are not dependencies of the service. Missing packages are
 * installed first. Compressed copies are stored too, so that the service does not compress.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { npmCommand } from './npm-command.ts'
import { buildIfOutdated } from './up-to-date.ts'

const root = join(import.meta.dirname, '..')
const project = join(root, 'console')
const vite = join(project, 'node_modules/vite/bin/vite.js')

if (isOutdated()) {
  const [command, args] = npmCommand(['ci', '--no-audit', '--no-fund', '--ignore-scripts'])
  execFileSync(command, args, { cwd: project, stdio: 'inherit' })
}
buildIfOutdated(
  'console',
  [
    ...['console', 'src', 'package.json', 'tsconfig.json', 'scripts/build-console.ts'],
    ...['src/kernels/generated', 'src/messages/generated'],
  ],
  ['src/server/http/generated/console'],
  () => {
    execFileSync(process.execPath, [vite, 'build', '--logLevel', 'warn'], { cwd: project, stdio: 'inherit' })
    compress(join(root, 'src/server/http/generated/console'))
  },
)

/** Whether the installed packages are older than the lock file. npm writes a copy of the lock file when it installs. */
function isOutdated(): boolean {
  const installed = join(project, 'node_modules/.package-lock.json')
  return (
    !existsSync(installed) ||
    statSync(installed).mtimeMs < statSync(join(project, 'package-lock.json')).mtimeMs
  )
}

function compress(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) compress(path)
    else if (/\.(?:js|css|html|svg)$/.test(path)) {
      const bytes = readFileSync(path)
      writeFileSync(`${path}.br`, brotliCompressSync(bytes))
      writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
    }
  }
}
