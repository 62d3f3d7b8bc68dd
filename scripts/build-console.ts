/**
 * Builds the console into src/http/generated/console, where the service finds it. The console is a package of its
 * own with its own lock file, so that what builds it is no dependency of the service; its packages are installed
 * here if they are not there yet. The result is also stored compressed, so that the service compresses nothing.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { npmCommand } from './npm-command.ts'

const root = join(import.meta.dirname, '..')
const project = join(root, 'console')
const vite = join(project, 'node_modules/vite/bin/vite.js')

if (isOutdated()) {
  const [command, args] = npmCommand(['ci', '--no-audit', '--no-fund', '--ignore-scripts'])
  execFileSync(command, args, { cwd: project, stdio: 'inherit' })
}
execFileSync(process.execPath, [vite, 'build', '--logLevel', 'warn'], { cwd: project, stdio: 'inherit' })
compress(join(root, 'src/http/generated/console'))

/** Whether the installed packages are not those of the lock file: npm writes its own copy when it has installed. */
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
