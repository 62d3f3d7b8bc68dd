import { spawn, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { join } from 'node:path'

/*
 * An older Node also runs this file, parent-watch.ts and main.ts, so they only use the language and the library of Node
 * 18.
 */

const nodeMajorMin = 24

export function isNodeNewEnough(): boolean {
  return Number.parseInt(process.versions.node, 10) >= nodeMajorMin
}

/**
 * Finds the Node of the package vicinal-node: beside this package, where `npm install` puts it, or among npm's global
 * packages.
 */
export function findBundledNode(module: string): string | undefined {
  return (
    nodeOf(() => createRequire(module).resolve(manifest)) ?? nodeOf(() => join(globalPackages(), manifest))
  )
}

/** @param find returns the path of vicinal-node's package.json */
function nodeOf(find: () => string): string | undefined {
  try {
    return createRequire(find()).resolve(`node-${process.platform}-${process.arch}/bin/node`)
  } catch {
    // Not installed, or vicinal-node has no Node for this platform.
    return undefined
  }
}

const manifest = 'vicinal-node/package.json'

function globalPackages(): string {
  const { status, stdout } = spawnSync('npm', ['root', '--global'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : '/'
}

/** The message when there is no suitable Node. */
export function noNodeMessage(): string {
  return (
    `vicinal needs Node ${nodeMajorMin} or later, and this is ${process.versions.node}: install a newer one ` +
    '(https://nodejs.org), or one for vicinal alone, on Linux: npm install --global vicinal-node'
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

const passedOn: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']
