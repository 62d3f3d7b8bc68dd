import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'

/*
 * What an older Node runs: this file, parent-watch.ts and main.ts keep to the language and the library of Node 18.
 */

export const nodeMajorMin = 24

export function isNodeNewEnough(): boolean {
  return Number.parseInt(process.versions.node, 10) >= nodeMajorMin
}

/**
 * The Node that the installation brought, as a module of the package finds it: `npm install` links it into a
 * project's `node_modules/.bin`, but that is first on the path of npm scripts only.
 */
export function findBundledNode(module: string): string | undefined {
  try {
    return createRequire(module).resolve(`${bundlePackage}/bin/node`)
  } catch {
    // Not installed: an optional dependency that this platform has not, or that `--omit=optional` left out.
    return undefined
  }
}

/** Why there is nothing to run on, for people. */
export function noNodeMessage(): string {
  return (
    `vicinal needs Node ${nodeMajorMin} or later: this is ${process.versions.node}, and ${bundlePackage}, ` +
    'the optional package that would bring one, is not installed'
  )
}

/**
 * Runs `script` on another Node, with this process's options, arguments and standard streams, passes signals on to
 * it, and ends as it ends: with its exit code or by its signal.
 */
export function runOn(node: string, script: string, environment: NodeJS.ProcessEnv): void {
  const child = spawn(node, [...process.execArgv, script, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: environment,
  })
  for (const signal of passedOn) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    console.error(`vicinal: ${node} cannot be run: ${error.message}`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    for (const each of passedOn) process.removeAllListeners(each)
    if (signal === null) process.exit(code ?? 1)
    // The code is for where a signal of its own does not end a process: the first one of a container.
    process.exitCode = 128 + constants.signals[signal]
    process.kill(process.pid, signal)
  })
}

const bundlePackage = `node-${process.platform}-${process.arch}`

const passedOn: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']
