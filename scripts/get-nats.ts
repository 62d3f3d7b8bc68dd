import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isOldVersion, oldestVersion } from '../src/cluster/nats-connection.ts'

/**
 * `npm run get:nats`: prints the path of a nats-server for the tests and the demo of clusters. It takes the one that is
 * there; otherwise Go builds the pinned version, through the module proxy, or Debian's package is unpacked privately.
 * Nothing is installed outside of a cache folder of the user.
 */

/** Built when none is found. */
export const pinnedVersion = '2.15.1'

/** A nats-server in NATS_SERVER, on PATH or in the cache; undefined when there is none that is new enough. */
export function findNatsServer(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  if (environment.NATS_SERVER) {
    const { NATS_SERVER: path } = environment
    if (!isNewEnough(path))
      throw new Error(`NATS_SERVER: ${path} is no nats-server from ${oldestVersion.join('.')} on`)
    return path
  }
  const onPath = (environment.PATH ?? '').split(delimiter).map((folder) => join(folder, 'nats-server'))
  return [...onPath, cachedServer(environment)].find((path) => isExecutable(path) && isNewEnough(path))
}

function cachedServer(environment: Readonly<Record<string, string | undefined>>): string {
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache')
  return join(cache, 'vicinal', `nats-server-v${pinnedVersion}`, 'nats-server')
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    // Missing, or not for us: the next place may have one.
    return false
  }
}

function isNewEnough(path: string): boolean {
  const said = spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout ?? ''
  return !isOldVersion(said.replace(/^\D*/, ''))
}

/** Makes a server in the cache. Returns what kept each way from working, or undefined when one worked. */
function makeServer(target: string): string | undefined {
  mkdirSync(dirname(target), { recursive: true })
  const ways = [buildWithGo, unpackFromDebian]
  const faults: string[] = []
  for (const way of ways) {
    const folder = mkdtempSync(join(tmpdir(), 'vicinal-nats-'))
    try {
      const made = way(folder)
      if (!isNewEnough(made)) throw new Error(`its version is below ${oldestVersion.join('.')}`)
      // The same file system as the cache is not certain for the temporary folder.
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

function buildWithGo(folder: string): string {
  // The folder where Go's own archive puts it, often not on the PATH of a service.
  const go = ['go', '/usr/local/go/bin/go'].find((path) => spawnSync(path, ['version']).status === 0)
  if (go === undefined) throw new Error('Go is not installed')
  console.error(`building nats-server ${pinnedVersion} with Go: this takes a few minutes`)
  const source = `github.com/nats-io/nats-server/v2@v${pinnedVersion}`
  execFileSync(go, ['install', '-trimpath', '-ldflags', '-s -w', source], {
    env: { ...process.env, GOBIN: folder, CGO_ENABLED: '0' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return join(folder, 'nats-server')
}

function unpackFromDebian(folder: string): string {
  execFileSync('apt-get', ['download', 'nats-server'], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  const [archive] = globSync('*.deb', { cwd: folder })
  if (archive === undefined) throw new Error('apt-get brought no package')
  execFileSync('dpkg', ['-x', archive, 'unpacked'], { cwd: folder })
  const [server] = globSync('unpacked/usr/*bin/nats-server', { cwd: folder })
  if (server === undefined) throw new Error("Debian's package has no nats-server")
  return join(folder, server)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const target = cachedServer(process.env)
  const found = findNatsServer()
  const fault = found === undefined ? makeServer(target) : undefined
  if (fault === undefined) {
    console.log(found ?? target)
  } else {
    console.error(`no nats-server from ${oldestVersion.join('.')} on was found or made:\n${fault}`)
    console.error('Install one (https://docs.nats.io), and name it in NATS_SERVER or put it on PATH.')
    process.exitCode = 1
  }
}
