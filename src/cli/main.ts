#!/usr/bin/env -S node --max-semi-space-size=16
import nodeModule from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findBundledNode, isNodeNewEnough, noNodeMessage, runOn, stopWithParent } from './bundled-node.ts'

// The imports above must run on an older Node; everything else is only loaded on a new one.
const { VICINAL_LAUNCHER: launcher, ...environment } = process.env
delete process.env.VICINAL_LAUNCHER
stopWithParent(environment, launcher === undefined ? undefined : Number(launcher))

if (isNodeNewEnough()) await runHere()
else if (launcher === undefined) runOnOther()
else fail(noNodeMessage())

async function runHere(): Promise<void> {
  // A reader that stops reading (`vicinal query … | head -1`) is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

  // When running from sources, cache the compiled files: otherwise every thread would strip types at every start.
  if (import.meta.filename.endsWith('.ts')) {
    process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/node-compile')
    nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE)
  }

  const { runProgram } = await import('./program.ts')
  process.exitCode = await runProgram(process.argv.slice(2), process.env)
  // After a signal, pending input or a request in progress must not delay the exit.
  if (process.exitCode > 128) process.exit()
}

function runOnOther(): void {
  const node = findBundledNode(import.meta.url)
  if (node === undefined) fail(noNodeMessage())
  runOn(node, fileURLToPath(import.meta.url), { ...environment, VICINAL_LAUNCHER: String(process.pid) })
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
