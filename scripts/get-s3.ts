import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { cacheFolder, isExecutable } from './get-nats.ts'
import { buildWithGo } from './go.ts'

/**
 * `npm run get:s3` prints the path of a server with the protocol of S3, for the tests of backups in buckets: Versity's
 * gateway in front of a directory, at the versions in test/s3-server/go.sum. Builds it with Go, and keeps it in the
 * user's cache folder.
 */

const source = join(import.meta.dirname, '../test/s3-server')

/** Named after its source. */
function cachedServer(): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(source).sort()) hash.update(readFileSync(join(source, name)))
  return join(cacheFolder(process.env), 's3-server', hash.digest('hex').slice(0, 16), 's3-server')
}

/** The path of the server; undefined if it was not built. */
export function findS3Server(): string | undefined {
  return isExecutable(cachedServer()) ? cachedServer() : undefined
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const target = cachedServer()
  if (findS3Server() === undefined) {
    mkdirSync(dirname(target), { recursive: true })
    // To optimize packages that answer a few thousand requests would take more time than it saves.
    const flags = ['-gcflags', 'github.com/...=-N -l', '-ldflags', '-s -w']
    buildWithGo(source, ['build', '-C', source, ...flags, '-o', `${target}.${process.pid}`, '.'])
    renameSync(`${target}.${process.pid}`, target)
  }
  console.log(target)
}
