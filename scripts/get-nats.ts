import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isOldVersion, oldestVersion } from '../src/cluster/log/nats-connection.ts'
import { buildWithGo } from './go.ts'

/**
 * `npm run get:nats` prints the path of a nats-server for the cluster tests and the cluster demo. It uses an existing
 * server if there is one. Otherwise it builds the pinned version with Go through the module proxy, or else unpacks
 * Debian's package. It installs nothing outside the user's cache folder.
 */

/** The version to build if no server is found. */
export const pinnedVersion = '2.15.1'

/** The path of a nats-server in NATS_SERVER, on PATH or in the cache; undefined if none is new enough. */
export function findNatsServer(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  if (environment.NATS_SERVER) {
    const { NATS_SERVER: path } = environment
    if (!isNewEnough(path))
      throw new Error(
        `NATS_SERVER: ${path} is not a nats-server of version ${oldestVersion.join('.')} or later`,
      )
    return path
  }
  const onPath = (environment.PATH ?? '').split(delimiter).map((folder) => join(folder, 'nats-server'))
  return [...onPath, cachedServer(environment)].find((path) => isExecutable(path) && isNewEnough(path))
}

function cachedServer(environment: Readonly<Record<string, string | undefined>>): string {
  return join(cacheFolder(environment), `nats-server-v${pinnedVersion}`, 'nats-server')
}

/** The folder in the user's cache for servers that tests need. */
export function cacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  return join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'vicinal')
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    // Missing or not executable: the next place may have a server.
    return false
  }
}

function isNewEnough(path: string): boolean {
  const said = spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout ?? ''
  return !isOldVersion(said.replace(/^\D*/, ''))
}

/** Puts a server into the cache. Returns why each way failed, or undefined if one succeeded. */
function makeServer(target: string): string | undefined {
  mkdirSync(dirname(target), { recursive: true })
  const ways = [buildNats, unpackFromDebian]
  const faults: string[] = []
  for (const way of ways) {
    const folder = mkdtempSync(join(tmpdir(), 'vicinal-nats-'))
    try {
      const made = way(folder)
      if (!isNewEnough(made)) throw new Error(`its version is below ${oldestVersion.join('.')}`)
      // Copy first, because the temporary folder may be on another file system than the cache.
      execFileSync('cp', [made, `${target}.${process.pid}`])
      renameSync(`${target}.${process.pid}`, target)
      return undefined
    } catch (error) {
      faults.push(`- ${way.name}: ${(error as Error).message.trim()}`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  return faults.join('\n')
}

function buildNats(folder: string): string {
  const source = `github.com/nats-io/nats-server/v2@v${pinnedVersion}`
  buildWithGo(source, ['install', '-ldflags', '-s -w', source], { GOBIN: folder })
  return join(folder, 'nats-server')
}

function unpackFromDebian(folder: string): string {
  execFileSync('apt-get', ['download', 'nats-server'], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  const [archive] = globSync('*.deb', { cwd: folder })
  if (archive === undefined) throw new Error('apt-get downloaded no package')
  execFileSync('dpkg', ['-x', archive, 'unpacked'], { cwd: folder })
  const [server] = globSync('unpacked/usr/*bin/nats-server', { cwd: folder })
  if (server === undefined) throw new Error("Debian's package contains no nats-server")
  return join(folder, server)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const target = cachedServer(process.env)
  const found = findNatsServer()
  const fault = found === undefined ? makeServer(target) : undefined
  if (fault === undefined) {
    console.log(found ?? target)
  } else {
    console.error(
      `No nats-server of version ${oldestVersion.join('.')} or later was found or built:\n${fault}`,
    )
    console.error('Install one (https://docs.nats.io), and name it in NATS_SERVER or put it on PATH.')
    process.exitCode = 1
  }
}
