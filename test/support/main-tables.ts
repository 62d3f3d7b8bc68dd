import { defaultCollection } from '../../src/base/collection.ts'
import { mainNumber } from '../../src/storage/catalog.ts'
import { openDatabase, type Tables } from '../../src/storage/tables.ts'

/** Opens the tables of the default collection of a data directory that nobody uses. Close their root. */
export async function openMainTables(dataDir: string): Promise<Tables> {
  const { tables } = await openDatabase(dataDir, false)
  return tables.of(mainNumber, defaultCollection)
}
