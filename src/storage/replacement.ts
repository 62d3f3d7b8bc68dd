import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncDirectory } from '../base/sync-directory.ts'
import {
  collectionsDirectory,
  collectionsPath,
  databasePath,
  reservePath,
  rowFilePath,
} from './data-directory.ts'

/**
 * How a node of a cluster gets the data of another node in place of its own, whatever it is killed in:
 *
 *   DATA_DIR/refetch   says why the data are not to be used, from then on
 *   DATA_DIR/joining   a data directory that is being filled; removed and begun again after a kill
 *   DATA_DIR/joined    the same, complete: its files take the place of the former ones, and every start goes on with that
 *
 * All of it is within the data directory, as that can be a mount point.
 */
const reasonPath = (dataDir: string): string => join(dataDir, 'refetch')
const joiningPath = (dataDir: string): string => join(dataDir, 'joining')
const joinedPath = (dataDir: string): string => join(dataDir, 'joined')

/** Says durably that what the directory holds is not to be used any more. */
export function requestReplacement(dataDir: string, reason: string): void {
  writeDurably(reasonPath(dataDir), `${reason}\n`)
}

/** Why the data are not to be used; undefined when they are. */
export function replacementReason(dataDir: string): string | undefined {
  return existsSync(reasonPath(dataDir)) ? readFileSync(reasonPath(dataDir), 'utf8').trim() : undefined
}

/** An empty directory to be filled. */
export async function beginReplacement(dataDir: string): Promise<string> {
  const joining = joiningPath(dataDir)
  await rm(joining, { recursive: true, force: true })
  mkdirSync(joining, { mode: 0o700 })
  return joining
}

/** Puts what was filled, and is durable and closed, in place of the data. The caller holds the lock of the directory. */
export function commitReplacement(dataDir: string): void {
  syncDirectory(joiningPath(dataDir))
  renameSync(joiningPath(dataDir), joinedPath(dataDir))
  syncDirectory(dataDir)
  finishReplacement(dataDir)
}

/** Goes on with a replacement that was complete when its process ended. The caller holds the lock of the directory. */
export function finishReplacement(dataDir: string): void {
  const joined = joinedPath(dataDir)
  if (!existsSync(joined)) return
  // Once it is written, nothing in the directory is of the former data.
  const cleared = join(joined, 'cleared')
  if (!existsSync(cleared)) {
    for (const path of dataPaths(dataDir)) rmSync(path, { recursive: true, force: true })
    syncDirectory(dataDir)
    writeDurably(cleared, '')
  }
  for (const [index, path] of dataPaths(joined).entries()) {
    if (existsSync(path)) renameSync(path, dataPaths(dataDir)[index]!)
  }
  syncDirectory(dataDir)
  rmSync(reasonPath(dataDir), { force: true })
  rmSync(joined, { recursive: true })
  syncDirectory(dataDir)
}

/** Everything that a store consists of, locks of LMDB and the index included. */
function dataPaths(dataDir: string): readonly string[] {
  const databases = [databasePath(dataDir), collectionsPath(dataDir)]
  return [
    ...databases.flatMap((path) => [path, `${path}-lock`]),
    ...[rowFilePath(dataDir), reservePath(dataDir), collectionsDirectory(dataDir), join(dataDir, 'index')],
  ]
}

function writeDurably(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true })
  syncDirectory(dirname(path))
}
