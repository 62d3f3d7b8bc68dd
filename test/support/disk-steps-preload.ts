/**
 * Loaded with `--import` before a program: sends it a signal before its nth disk step and each later one, in whichever
 * thread. SIGKILL ends it there; SIGSTOP stops all its threads until SIGCONT, with what a killed process would leave on
 * the disk. A step is a call that changes or syncs a file, or an LMDB transaction. The count is the length of a file
 * that all threads share.
 */
import { EventEmitter } from 'node:events'
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const { searchParams } = new URL(import.meta.url)
const before = Number(searchParams.get('before'))
const countPath = searchParams.get('count')!
const signal = searchParams.get('signal')!
const resumedPath = `${countPath}-resumed`
const { appendFileSync, existsSync, statSync } = fs

/** Counts one step. Counting begins when the program creates the count file. */
function step(): void {
  if (!existsSync(countPath)) return
  appendFileSync(countPath, '.')
  // Steps of two threads at once: neither may see the number between them.
  if (statSync(countPath).size < before) return
  const resumed = timesResumed()
  process.kill(process.pid, signal)
  // The signal can reach another thread first. On a busy machine, this one would then take steps before it is stopped.
  while (timesResumed() === resumed) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lookMs)
}

/** The length of a file to which the stopper adds a byte before it sends SIGCONT. */
function timesResumed(): number {
  return statSync(resumedPath, { throwIfNoEntry: false })?.size ?? 0
}

const lookMs = 2

type Call = (...args: never[]) => unknown

/** Counts calls of these methods as steps, except writes of reserve chunks: their bytes have no meaning. */
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

// lmdb emits an event when a transaction begins. A later kill, during its commit, leaves all of it or nothing.
const { emit } = EventEmitter.prototype
EventEmitter.prototype.emit = function (event, ...args) {
  if (event === 'begin-transaction') step()
  return emit.call(this, event, ...args)
}

count(fs, ['fsyncSync', 'fdatasyncSync', 'mkdirSync', 'renameSync', 'rmSync', 'writeSync'])
count(fsPromises, ['rm'])
syncBuiltinESMExports()
