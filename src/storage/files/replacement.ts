import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncDirectory } from '../../base/files.ts'
import { collectionsDirectory, databasePath, reservePath } from './data-directory.ts'

/**
 * Replaces the data of a cluster's node by those of another node. The process can be killed at any time:
 *
 *   DATA_DIR/refetch   contains the reason why the data must no longer be used
 *   DATA_DIR/joining   a data directory that is being filled; removed and started again after a kill
 *   DATA_DIR/joined    the complete directory: its files replace the old files, and every start continues that
 *
 * All of them are within the data directory, because that can be a mount point.
 */
const reasonPath = (dataDir: string): string => join(dataDir, 'refetch')
const joiningPath = (dataDir: string): string => join(dataDir, 'joining')
const joinedPath = (dataDir: string): string => join(dataDir, 'joined')

/** Notes durably that the data of the directory must no longer be used. */
export function requestReplacement(dataDir: string, reason: string): void {
  writeDurably(reasonPath(dataDir), `${reason}\n`)
}

/** Returns why the data must not be used; undefined if they may be used. */
export function replacementReason(dataDir: string): string | undefined {
  return existsSync(reasonPath(dataDir)) ? readFileSync(reasonPath(dataDir), 'utf8').trim() : undefined
}

/** Creates an empty directory to fill. */
export async function beginReplacement(dataDir: string): Promise<string> {
  const joining = joiningPath(dataDir)
  await rm(joining, { recursive: true, force: true })
  mkdirSync(joining, { mode: 0o700 })
  return joining
}

/**
 * Replaces the data by the filled directory, which is durable and closed. The caller holds the lock of the data
 * directory.
 */
export function commitReplacement(dataDir: string): void {
  syncDirectory(joiningPath(dataDir))
  renameSync(joiningPath(dataDir), joinedPath(dataDir))
  syncDirectory(dataDir)
  finishReplacement(dataDir)
}

/**
 * Continues a replacement whose data were complete when its process ended. The caller holds the lock of the directory.
 */
export function finishReplacement(dataDir: string): void {
  const joined = joinedPath(dataDir)
  if (!existsSync(joined)) return
  // When this file exists, the old data have been removed. A kill can also leave the directory without it at the end,
  // when the new data have been moved.
  const cleared = join(joined, 'cleared')
  if (!existsSync(cleared) && existsSync(databasePath(joined))) {
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

/**
 * Checks that the files of the directory are not a mixture of old and new ones. A service finishes a replacement when it
 * starts; other programs change nothing.
 *
 * @throws Error that says what to do
 */
export function checkReplaced(dataDir: string): void {
  if (!existsSync(joinedPath(dataDir))) return
  throw new Error(
    `the process ended while the data in ${dataDir} were being replaced by those of another node: start the service, which finishes that, and try again`,
  )
}

/** All files of a store, including LMDB's lock file. */
function dataPaths(dataDir: string): readonly string[] {
  const database = databasePath(dataDir)
  return [database, `${database}-lock`, reservePath(dataDir), collectionsDirectory(dataDir)]
}

function writeDurably(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true })
  syncDirectory(dirname(path))
}
