import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectoryAsync } from '../base/sync-directory.ts'
import type { Catalog } from './catalog.ts'
import { beyondRepair, collectionDirectory, collectionsDirectory, collectionsPath } from './data-directory.ts'
import { rowsHeaderBytes } from './key-layout.ts'

/**
 * Removes the leftovers of interrupted creations: directories of unassigned numbers, without rows. Dropped collections
 * stay in the catalog until their directories are removed.
 *
 * @param catalog undefined if there is no collections.mdb
 * @throws DatabaseError if there are points of collections that the catalog does not contain. The catalog was lost;
 *   nothing is removed
 */
export function clearLeftovers(dataDir: string, catalog: Catalog | undefined): void {
  const path = collectionsPath(dataDir)
  for (const file of [`${path}.new`, `${path}.new-lock`]) rmSync(file, { force: true })
  for (const number of leftovers(dataDir, catalog)) {
    rmSync(collectionDirectory(dataDir, number), { recursive: true })
  }
}

/** The numbers of the directories that `clearLeftovers` removes. */
export function leftovers(dataDir: string, catalog: Catalog | undefined): readonly number[] {
  if (!existsSync(collectionsDirectory(dataDir))) return []
  const numbers = readdirSync(collectionsDirectory(dataDir))
    .filter((name) => /^[1-9]\d*$/.test(name))
    .map(Number)
  const strangers = numbers.filter(
    (number) => catalog?.nameOf(number) === undefined && catalog?.dropped.has(number) !== true,
  )
  for (const number of strangers) {
    const directory = collectionDirectory(dataDir, number)
    const rows = statSync(join(directory, 'vectors.rows'), { throwIfNoEntry: false })
    if (catalog !== undefined && (rows?.size ?? 0) <= rowsHeaderBytes) continue
    const fault =
      catalog === undefined ? 'it is missing, though there are collections' : `it does not know ${directory}`
    throw beyondRepair(collectionsPath(dataDir), fault)
  }
  return strangers
}

/** Removes the files of a collection durably. */
export async function removeDirectory(dataDir: string, number: number): Promise<void> {
  await rm(collectionDirectory(dataDir, number), { recursive: true, force: true })
  await syncDirectoryAsync(collectionsDirectory(dataDir))
}
