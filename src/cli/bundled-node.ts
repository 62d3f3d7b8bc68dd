import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'

/*
 * An older Node also runs this file, parent-watch.ts and main.ts, so they only use the language and the library of Node
 * 18.
 */

export const nodeMajorMin = 24

export function isNodeNewEnough(): boolean {
  return Number.parseInt(process.versions.node, 10) >= nodeMajorMin
}

/**
 * Finds the Node that was installed with the package, from a module of the package. `npm install` also links it into
 * `node_modules/.bin` of a project, but only npm scripts have this directory first in their path.
 */
export function findBundledNode(module: string): string | undefined {
  try {
    return createRequire(module).resolve(`${bundlePackage}/bin/node`)
  } catch {
    // Not installed: the optional dependency does not exist for this platform, or `--omit=optional` left it out.
    return undefined
  }
}

/** The message when there is no suitable Node. */
export function noNodeMessage(): string {
  return (
    `vicinal needs Node ${nodeMajorMin} or later: this is ${process.versions.node}, and ${bundlePackage}, ` +
    'the optional package that contains one, is not installed'
  )
}

/**
 * Runs `script` on another Node with this process's options, arguments and standard streams. Passes signals on to it,
 * and ends like it: with its exit code or by its signal.
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
    // The code is for the first process of a container, which its own signal does not end.
    process.exitCode = 128 + constants.signals[signal]
    process.kill(process.pid, signal)
  })
}

const bundlePackage = `node-${process.platform}-${process.arch}`

const passedOn: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']
