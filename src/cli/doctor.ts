import type { Config } from '../config.ts'
import { examineData, repairData } from '../service/stored-data.ts'

export interface DoctorOptions {
  readonly json?: boolean
  readonly repair?: boolean
}

type Diagnosis = Awaited<ReturnType<typeof examineData>>

/**
 * Examines the stored data and prints the findings. With `repair`, sets damaged points aside.
 *
 * @throws Error if points are damaged and not set aside, or the data directory is missing or in use
 */
export async function examineDataDirectory(config: Config, options: DoctorOptions): Promise<void> {
  if (options.repair) {
    const { diagnosis, file } = await repairData(config)
    if (options.json) console.log(JSON.stringify({ ...diagnosis, repaired: true, setAside: file }))
    else printRepair(diagnosis, file)
    checkRepaired(diagnosis)
    return
  }
  const diagnosis = await examineData(config)
  if (options.json) console.log(JSON.stringify(diagnosis))
  else print(diagnosis)
  const damageCount = all(diagnosis).reduce((sum, each) => sum + each.damageCount, 0)
  if (damageCount > 0) {
    throw new Error(
      `${damageCount === 1 ? 'a fault was' : `${damageCount} faults were`} found in ${config.dataDir}: restore a snapshot into another directory, or set the damaged points aside with \`vicinal doctor --repair\`, on a copy first where you can`,
    )
  }
}

/** The diagnoses of the default collection and of all named collections. */
function all(diagnosis: Diagnosis): readonly CollectionDiagnosis[] {
  return [diagnosis, ...(diagnosis.collections ?? [])]
}

type CollectionDiagnosis = Omit<Diagnosis, 'collections'> &
  Partial<NonNullable<Diagnosis['collections']>[number]>

function print(diagnosis: Diagnosis): void {
  for (const each of all(diagnosis)) printOne(each)
}

function printOne({ name, points, graphs, damage, damageCount, staleIndex }: CollectionDiagnosis): void {
  const whose = prefixOf(name)
  console.log(
    damageCount === 0
      ? `${whose}${points} points: every vector and payload was read and is undamaged`
      : `${whose}${points} undamaged points: every vector and payload was read`,
  )
  for (const { file, linked, unlinked } of graphs) {
    console.log(
      `${whose}${file}: ${linked} points linked${unlinked > 0 ? `, ${unlinked} to be linked at the next start` : ''}`,
    )
  }
  for (const each of staleIndex) {
    console.log(`${whose}index: ${each} (no point is lost; the next start repairs it)`)
  }
  printDamage(whose, damage, damageCount)
}

function printRepair(diagnosis: Diagnosis, file: string | undefined): void {
  for (const each of all(diagnosis)) printRepairOfOne(each, each === diagnosis ? file : each.setAside)
}

/** @throws Error that names the collections that could not be repaired */
function checkRepaired(diagnosis: Diagnosis): void {
  const names = all(diagnosis).flatMap(({ name, isBeyondRepair }) => (isBeyondRepair ? [name] : []))
  if (names.length > 0)
    throw new Error(
      `these collections cannot be repaired, the others are served: ${names.join(', ')}. Drop them, or keep the directory unchanged and restore a snapshot into another`,
    )
}

function printRepairOfOne(found: CollectionDiagnosis, file: string | undefined): void {
  const { name, points, damage, damageCount, isBeyondRepair } = found
  const whose = prefixOf(name)
  if (damageCount === 0) {
    console.log(
      `${whose}${points} points: every vector and payload was read and is undamaged; there is nothing to repair`,
    )
    return
  }
  printDamage(whose, damage, damageCount)
  if (isBeyondRepair) return
  if (file !== undefined) {
    console.log(`${whose}damaged points were set aside: their remains are in ${file}`)
  }
  console.log(`${whose}repaired: the next start serves the ${points} undamaged points`)
}

function prefixOf(name: string | undefined): string {
  return name === undefined ? '' : `collection ${name}: `
}

function printDamage(whose: string, damage: readonly string[], count: number): void {
  for (const each of damage) console.log(`${whose}DAMAGED: ${each}`)
  if (count > damage.length) console.log(`${whose}DAMAGED: ${count - damage.length} more, ${count} in all`)
}
