import { closeSync, existsSync, openSync, readSync, renameSync, writeSync } from 'node:fs'

/**
 * Reads rows of a matrix file: raw little-endian float32 values, row after row. Files are read and written in pieces,
 * because one system call transfers at most 2 GiB.
 */
export function readRows(path: string, from: number, count: number, dimension: number): Float32Array {
  const rows = new Float32Array(count * dimension)
  readInto(path, from * dimension * 4, new Uint8Array(rows.buffer))
  return rows
}

/** As `readRows`, in memory that worker threads can share. */
export function readSharedRows(path: string, from: number, count: number, dimension: number): Float32Array {
  const rows = new Float32Array(new SharedArrayBuffer(count * dimension * 4))
  readInto(path, from * dimension * 4, new Uint8Array(rows.buffer))
  return rows
}

/** Writes to a temporary name first, so that no reader finds an incomplete file. */
export function writeRows(path: string, rows: Float32Array): void {
  writeAt(`${path}.part`, 'w', 0, rows)
  renameSync(`${path}.part`, path)
}

/** Writes rows behind the first `present` rows of a file, which is created if there is none. */
export function appendRows(path: string, present: number, rows: Float32Array, dimension: number): void {
  writeAt(path, existsSync(path) ? 'r+' : 'w', present * dimension * 4, rows)
}

function writeAt(path: string, flags: string, offset: number, rows: Float32Array): void {
  const bytes = new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)
  const file = openSync(path, flags)
  try {
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(file, bytes, at, Math.min(pieceBytes, bytes.length - at), offset + at)
    }
  } finally {
    closeSync(file)
  }
}

const pieceBytes = 64 * 1024 * 1024

function readInto(path: string, offset: number, bytes: Uint8Array): void {
  const file = openSync(path, 'r')
  try {
    for (let at = 0; at < bytes.length; ) {
      const read = readSync(file, bytes, at, Math.min(pieceBytes, bytes.length - at), offset + at)
      if (read === 0) throw new Error(`${path} is shorter than the requested ${offset + bytes.length} bytes`)
      at += read
    }
  } finally {
    closeSync(file)
  }
}
