import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildWithGo, cacheFolder, isExecutable } from './get-nats.ts'

/**
 * `npm run get:s3` prints the path of a server with the protocol of S3, for the tests of backups in buckets: Versity's
 * gateway in front of a directory. Builds the pinned version with Go, and keeps it in the user's cache folder.
 */

const pinnedVersion = '1.8.0'
const source = `github.com/versity/versitygw/cmd/versitygw@v${pinnedVersion}`

function cachedServer(): string {
  return join(cacheFolder(process.env), `versitygw-v${pinnedVersion}`, 'versitygw')
}

/** The path of the server; undefined if it was not built. */
export function findS3Server(): string | undefined {
  return isExecutable(cachedServer()) ? cachedServer() : undefined
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const target = cachedServer()
  if (findS3Server() === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'vicinal-s3-'))
    mkdirSync(dirname(target), { recursive: true })
    // Copy first, because the temporary folder may be on another file system than the cache.
    execFileSync('cp', [buildWithGo(folder, source), `${target}.${process.pid}`])
    renameSync(`${target}.${process.pid}`, target)
    rmSync(folder, { recursive: true })
  }
  console.log(target)
}
