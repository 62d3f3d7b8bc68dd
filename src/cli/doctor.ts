import { existsSync } from 'node:fs'
import type { Config } from '../config.ts'
import { examineData, repairData } from '../main.ts'

export interface DoctorOptions {
  readonly json?: boolean
  readonly repair?: boolean
}

type Diagnosis = Awaited<ReturnType<typeof examineData>>

/**
 * Examines the stored data and prints what it found; with `repair`, sets damaged points aside.
 *
 * @throws Error when points are damaged and not set aside, or the data directory is missing or in use
 */
export async function examineDataDirectory(config: Config, options: DoctorOptions): Promise<void> {
  const { dataDir } = config
  if (!existsSync(dataDir)) throw new Error(`there is no data directory ${dataDir} (DATA_DIR)`)
  if (options.repair) {
    const { diagnosis, file } = await repairData(config)
    if (options.json) console.log(JSON.stringify({ ...diagnosis, repaired: true, setAside: file }))
    else printRepair(diagnosis, file)
    return
  }
  const diagnosis = await examineData(config)
  if (options.json) console.log(JSON.stringify(diagnosis))
  else print(diagnosis)
  const { damageCount } = diagnosis
  if (damageCount > 0) {
    throw new Error(
      `${damageCount === 1 ? 'a fault was' : `${damageCount} faults were`} found in ${dataDir}: restore a snapshot into another directory, or set the damaged points aside with \`vicinal doctor --repair\`, on a copy first where you can`,
    )
  }
}

function print({ points, graphs, damage, damageCount, staleIndex }: Diagnosis): void {
  console.log(
    damageCount === 0
      ? `${points} points: every vector and payload was read and is whole`
      : `${points} whole points: every vector and payload was read`,
  )
  for (const { file, linked, unlinked } of graphs) {
    console.log(
      `${file}: ${linked} points linked${unlinked > 0 ? `, ${unlinked} to be linked at the next start` : ''}`,
    )
  }
  for (const each of staleIndex) console.log(`index: ${each} (no point is lost; the next start mends it)`)
  printDamage(damage, damageCount)
}

function printRepair({ points, damage, damageCount }: Diagnosis, file: string | undefined): void {
  if (damageCount === 0) {
    console.log(`${points} points: every vector and payload was read and is whole, nothing is to be repaired`)
    return
  }
  printDamage(damage, damageCount)
  if (file !== undefined) console.log(`damaged points were set aside: what is left of them is in ${file}`)
  console.log(`repaired: the next start serves the ${points} whole points`)
}

function printDamage(damage: readonly string[], count: number): void {
  for (const each of damage) console.log(`DAMAGED: ${each}`)
  if (count > damage.length) console.log(`DAMAGED: ${count - damage.length} more, ${count} in all`)
}
