/** Loaded with `--import` before a program: makes calls on the row file fail as the order file specifies. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { type DiskFault, readOrder, writeOrder } from './failing-disk.ts'

const orderPath = new URL(import.meta.url).searchParams.get('order')!
const rowFiles = new Set<number>()
const real = { open: fs.openSync, write: fs.writeSync, fdatasync: fs.fdatasyncSync }

fs.openSync = (path, ...more) => {
  const isRowFile = String(path).endsWith('vectors.rows')
  if (isRowFile) failIfOrdered('open')
  const file = real.open(path, ...more)
  if (isRowFile) rowFiles.add(file)
  else rowFiles.delete(file)
  return file
}
fs.writeSync = ((file: number, ...more: [Uint8Array, number, number, number]) => {
  if (rowFiles.has(file)) failIfOrdered('write')
  return real.write(file, ...more)
}) as typeof fs.writeSync
fs.fdatasyncSync = (file) => {
  if (rowFiles.has(file)) failIfOrdered('fdatasync')
  real.fdatasync(file)
}
syncBuiltinESMExports()

function failIfOrdered(operation: DiskFault['operation']): void {
  const order = readOrder(orderPath)
  if (order?.operation !== operation || order.times === 0) return
  if (order.after > 0) {
    writeOrder(orderPath, { ...order, after: order.after - 1 })
    return
  }
  // Writing here could undo a later order.
  if (order.times > 0) writeOrder(orderPath, { ...order, times: order.times - 1 })
  if (order.code === 'thread exit') process.exit(3)
  throw Object.assign(new Error(`${order.code}: injected, ${operation}`), {
    code: order.code,
    syscall: operation,
  })
}
