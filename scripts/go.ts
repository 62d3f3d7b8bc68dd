import { execFileSync, spawnSync } from 'node:child_process'
import { delimiter, dirname } from 'node:path'

/**
 * Go, for the servers that tests need and for the Go example. Without flags that change what is compiled: all of these
 * programs then share Go's own packages, which take the longest.
 */

/** The path of Go; undefined if it is not installed. Its own archive installs it where PATH often does not reach. */
export function findGo(): string | undefined {
  return ['go', '/usr/local/go/bin/go'].find((path) => spawnSync(path, ['version']).status === 0)
}

/** The environment for Go, and for programs that start it. */
export function goEnvironment(go: string): NodeJS.ProcessEnv {
  const path = [dirname(go), process.env.PATH].join(delimiter)
  // With cgo, the packages for networks and all that import them are others.
  return { ...process.env, PATH: go === 'go' ? process.env.PATH : path, CGO_ENABLED: '0' }
}

/**
 * Builds a program.
 *
 * @param program what it is, for people
 * @param args of Go
 * @param environment more variables
 */
export function buildWithGo(
  program: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): void {
  const go = findGo()
  if (go === undefined) throw new Error('Go is not installed')
  console.error(`building ${program} with Go: this takes a few minutes`)
  execFileSync(go, args, {
    env: { ...goEnvironment(go), ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}
