#!/usr/bin/env -S node --max-semi-space-size=16
import nodeModule from 'node:module'
import { join } from 'node:path'

/** Looks at Node's version before anything is loaded that an older one cannot run. */
const nodeMajorMin = 24

if (Number.parseInt(process.versions.node, 10) < nodeMajorMin) {
  console.error(`vicinal needs Node ${nodeMajorMin} or later, this is ${process.versions.node}`)
  process.exit(1)
}
// A reader that has seen enough (`vicinal query … | head -1`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// From sources: they are stripped of their types and compiled once, not at every start by every thread.
if (import.meta.filename.endsWith('.ts')) {
  process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/node-compile')
  nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE)
}

const { runProgram } = await import('./program.ts')
await runProgram(process.argv, process.env)
