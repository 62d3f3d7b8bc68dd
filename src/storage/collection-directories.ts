import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Catalog } from './catalog.ts'
import { beyondRepair, collectionDirectory, collectionsDirectory, collectionsPath } from './data-directory.ts'
import { rowsHeaderBytes } from './key-layout.ts'

/**
 * Removes what interrupted creations have left: directories of numbers that were never given, which hold no row. Those
 * of dropped collections stay in the catalog until they are gone.
 *
 * @param catalog undefined where there is no collections.mdb
 * @throws DatabaseError when there are points that no catalog knows: somebody has lost the catalog, and nothing is removed
 */
export function clearLeftovers(dataDir: string, catalog: Catalog | undefined): void {
  const path = collectionsPath(dataDir)
  for (const file of [`${path}.new`, `${path}.new-lock`]) rmSync(file, { force: true })
  for (const number of leftovers(dataDir, catalog)) {
    rmSync(collectionDirectory(dataDir, number), { recursive: true })
  }
}

/** The numbers of what `clearLeftovers` removes. */
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

/** Resolves when the files of a collection are gone for good. */
export async function removeDirectory(dataDir: string, number: number): Promise<void> {
  await rm(collectionDirectory(dataDir, number), { recursive: true, force: true })
  await using parent = await open(collectionsDirectory(dataDir), 'r')
  await parent.sync()
}
