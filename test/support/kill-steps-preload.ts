/**
 * Loaded with `--import` before a program: kills the process before its nth step on the disk, whichever thread takes it.
 * A step is a call that changes a file or makes it durable, or a transaction of LMDB's. Steps are counted by the length of a
 * file, which all threads share.
 */
import { EventEmitter } from 'node:events'
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const { searchParams } = new URL(import.meta.url)
const before = Number(searchParams.get('before'))
const countPath = searchParams.get('count')!
const { appendFileSync, existsSync, statSync } = fs

/** Counts from when the program makes this file. */
function step(): void {
  if (!existsSync(countPath)) return
  appendFileSync(countPath, '.')
  if (statSync(countPath).size === before) process.kill(process.pid, 'SIGKILL')
}

type Call = (...args: never[]) => unknown

/** Makes calls of `names` steps, but for writes as long as those of the reserve: what they write has no meaning. */
function count(holder: object, names: readonly string[]): void {
  const calls = holder as Record<string, Call>
  for (const name of names) {
    const call = calls[name]!
    calls[name] = function (this: unknown, ...args: never[]) {
      const [, bytes] = args as readonly unknown[]
      if (!(bytes instanceof Uint8Array && bytes.length >= reserveChunkBytes)) step()
      return call.apply(this, args)
    }
  }
}

const reserveChunkBytes = 256 * 1024

// lmdb tells of each transaction when it begins; one that is killed later, in its commit, is there whole or not at all.
const { emit } = EventEmitter.prototype
EventEmitter.prototype.emit = function (event, ...args) {
  if (event === 'begin-transaction') step()
  return emit.call(this, event, ...args)
}

count(fs, ['fsyncSync', 'fdatasyncSync', 'mkdirSync', 'renameSync', 'rmSync', 'writeSync'])
count(fsPromises, ['rm'])
syncBuiltinESMExports()
