import { closeSync, fsyncSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseError } from '../base/errors.ts'

/** The files of a data directory: key-layout.ts has what stands in them. */
export const rowFilePath = (dataDir: string): string => join(dataDir, 'vectors.rows')
export const databasePath = (dataDir: string): string => join(dataDir, 'points.mdb')
export const reservePath = (dataDir: string): string => join(dataDir, 'reserve')

/** Makes the directory where it is missing, with its parents, so that their names are on the disk too. */
export function makeDirectory(dataDir: string): void {
  const first = mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let made = dataDir; made.length >= first.length; made = dirname(made)) syncDirectory(dirname(made))
}

/** Makes the names in a directory durable: a file that is safe under a name that is not would be lost. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/** An error at start-up that says which file is damaged, how, and what is left to do. */
export function damaged(path: string, fault: string): DatabaseError {
  return new DatabaseError(
    'internal',
    `${path} cannot be used: ${fault}. Restore the data directory from a backup.`,
  )
}
