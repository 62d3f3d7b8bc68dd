/**
 * Loaded with `--import` before a program: kills the process before its nth step on the disk, whichever thread takes it.
 * A step is a call that changes a file or makes it durable, or a commit of LMDB's. Steps are counted by the length of a
 * file, which all threads share.
 */
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { open } from 'lmdb'

const { searchParams } = new URL(import.meta.url)
const before = Number(searchParams.get('before'))
const countPath = searchParams.get('count')!
const { appendFileSync, mkdtempSync, rmSync, statSync } = fs

/** Counts from when the program makes this file. */
function step(): void {
  if (!fs.existsSync(countPath)) return
  appendFileSync(countPath, '.')
  if (statSync(countPath).size === before) process.kill(process.pid, 'SIGKILL')
}

type Call = (...args: never[]) => unknown

/** Makes calls of `names` steps. */
function count(holder: object, names: readonly string[]): void {
  const calls = holder as Record<string, Call>
  for (const name of names) {
    const call = calls[name]!
    calls[name] = function (this: unknown, ...args: never[]) {
      step()
      return call.apply(this, args)
    }
  }
}

// LMDB's commits are of the prototype of its databases; a killed process has made them whole or not at all.
const directory = mkdtempSync(join(tmpdir(), 'vicinal-steps-'))
const database = open({ path: join(directory, `${threadId}.mdb`), noSubdir: true })
count(Object.getPrototypeOf(database), ['transactionSync'])
await database.close()
rmSync(directory, { recursive: true })

count(fs, ['fsyncSync', 'fdatasyncSync', 'mkdirSync', 'renameSync', 'rmSync', 'writeSync'])
count(fsPromises, ['rm'])
syncBuiltinESMExports()
