import { existsSync } from 'node:fs'
import type { Config } from '../config.ts'
import { examineData } from '../main.ts'

/**
 * Examines the stored data and prints what it found.
 *
 * @throws Error when points are damaged, or the data directory is missing or in use
 */
export async function examineDataDirectory(
  config: Config,
  options: { readonly json?: boolean },
): Promise<void> {
  if (!existsSync(config.dataDir)) throw new Error(`there is no data directory ${config.dataDir} (DATA_DIR)`)
  const diagnosis = await examineData(config)
  const { points, graphs, damage, staleIndex } = diagnosis
  if (options.json) {
    console.log(JSON.stringify(diagnosis))
  } else {
    console.log(
      `${points} points: every vector and payload was read${damage.length === 0 ? ' and is whole' : ''}`,
    )
    for (const { file, linked, unlinked } of graphs) {
      console.log(
        `${file}: ${linked} points linked${unlinked > 0 ? `, ${unlinked} to be linked at the next start` : ''}`,
      )
    }
    for (const each of staleIndex) console.log(`index: ${each} (no point is lost; the next start mends it)`)
    for (const each of damage) console.log(`DAMAGED: ${each}`)
  }
  if (damage.length > 0) {
    throw new Error(
      `${damage.length === 1 ? 'a fault was' : `${damage.length} faults were`} found in ${config.dataDir}: restore it from a backup, or ask for help before anything is written to it`,
    )
  }
}
