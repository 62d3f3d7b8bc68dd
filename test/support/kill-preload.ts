/** Loaded with `--import` before a program: kills the process before its nth sync of a file. */
import fs from 'node:fs'
import { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

let left = Number(new URL(import.meta.url).searchParams.get('before'))

function countDown(): void {
  left -= 1
  if (left === 0) process.kill(process.pid, 'SIGKILL')
}

const { fsyncSync } = fs
fs.fsyncSync = (file) => {
  countDown()
  fsyncSync(file)
}
syncBuiltinESMExports()

await using file = await open(import.meta.filename)
const handle = Object.getPrototypeOf(file) as { sync: typeof file.sync }
const { sync } = handle
handle.sync = function (this: typeof file) {
  countDown()
  return sync.call(this)
}
