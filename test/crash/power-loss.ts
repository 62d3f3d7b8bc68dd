import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import type { NewPoint, Point } from '../../src/base/point.ts'
import type { Collection } from '../../src/collections/engine.ts'
import { insertIds } from '../support/insert-ids.ts'
import { seededRandom } from '../support/random.ts'
import { type DiskHistory, historyOf } from './disk-history.ts'
import { type Loss, writeImage } from './disk-image.ts'
import { type Recording, record } from './disk-record.ts'
import {
  afterChange,
  type GroupChange,
  insertNoted,
  type Note,
  type Promised,
  pointsOf,
  promisedBy,
} from './notes.ts'
import { differenceOf, originOf } from './oracle.ts'
import { openPoints } from './points.ts'

export const losses: readonly Loss[] = [
  { kind: 'dropped' },
  { kind: 'torn', sectorBytes: 512 },
  { kind: 'torn', sectorBytes: 4096 },
  { kind: 'reordered', sectorBytes: 512 },
  { kind: 'reordered', sectorBytes: 4096 },
  { kind: 'kept' },
]

export interface PowerLossSummary {
  readonly moments: number
  readonly images: number
  /** Number of acknowledged points compared, over all images. */
  readonly compared: number
  readonly byLoss: Readonly<Record<string, number>>
}

/** A recorded run of the engine, and the disk images that a power failure can leave at any moment of it. */
export class PowerLoss implements AsyncDisposable {
  readonly #directory: string
  /** Images are simulated disks, so memory suffices. */
  readonly #imageRoot: string = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  readonly #recording: Recording
  readonly #history: DiskHistory
  readonly #moments: readonly number[]
  readonly #counts = { images: 0, compared: 0, byLoss: emptyCounts() }

  private constructor(
    directory: string,
    recording: Recording,
    history: DiskHistory,
    moments: readonly number[],
  ) {
    this.#directory = directory
    this.#recording = recording
    this.#history = history
    this.#moments = moments
  }

  static async record(seed: number): Promise<PowerLoss> {
    const directory = await mkdtemp(join(tmpdir(), 'vicinal-power-'))
    const recording = await record(directory, seed)
    const history = historyOf(recording)
    return new PowerLoss(directory, recording, history, momentsOf(history, recording))
  }

  /** The same run on a disk that acknowledges syncs without syncing. */
  onLyingDisk(): PowerLoss {
    const history = historyOf(this.#recording, true)
    return new PowerLoss(this.#directory, this.#recording, history, this.#moments)
  }

  /** Number of renames: of the new database and of index checkpoints. */
  get renames(): number {
    return this.#history.names.filter(({ names }) => names.length > 1).length
  }

  /** Number of moments: between two of them, the disk or the acknowledged data changed. */
  get momentCount(): number {
    return this.#moments.length
  }

  /** How many moments are before the first request, so during the first start. */
  get firstStartCount(): number {
    const [first] = this.#recording.notes
    return this.#moments.filter((moment) => moment < first!.end).length
  }

  get summary(): PowerLossSummary {
    return { moments: this.#moments.length, ...this.#counts }
  }

  /**
   * Cuts the power at a moment, opens the image with the real engine and compares it with the acknowledged data.
   * Sometimes it also stores another point, then opens and compares again.
   *
   * @throws Error that names the moment and the loss
   */
  async cut(index: number, loss: Loss, seed: number): Promise<void> {
    const moment = this.#moments[index]
    if (moment === undefined) throw new Error(`there is no moment ${index}`)
    const to = await mkdtemp(join(this.#imageRoot, 'vicinal-power-'))
    const random = seededRandom(seed)
    try {
      writeImage(this.#history, { from: this.#recording.dataDir, to, moment, loss, random })
      // After a machine crash, the lock file that only a process had mapped may contain anything.
      if (random() < 0.5)
        await writeFile(join(to, 'collections.mdb-lock'), Buffer.alloc(8272, Math.floor(random() * 256)))
      const notes = this.#recording.notes.filter(({ end }) => end <= moment).map(({ note }) => note)
      this.#counts.compared += await compare(to, promisedBy(notes), random() < 0.3)
    } catch (error) {
      const where = `power lost at moment ${index} of ${this.#moments.length}, unsynced ${JSON.stringify(loss)}, seed ${seed}`
      throw new Error(`${where}: ${error instanceof Error ? error.message : error}`, { cause: error })
    } finally {
      await rm(to, { recursive: true })
    }
    this.#counts.images += 1
    const kind = loss.kind
    this.#counts.byLoss[kind] = (this.#counts.byLoss[kind] ?? 0) + 1
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true })
  }
}

function emptyCounts(): Record<string, number> {
  return {}
}

/**
 * Moments just after each begin and end of a change or sync, after each note, and before the first start, when the
 * directory is empty.
 */
function momentsOf({ names }: DiskHistory, { notes }: Recording): number[] {
  const files = new Set(names.flatMap((change) => change.names.map(({ file }) => file)))
  const changes = [...files].flatMap((file) => (typeof file === 'object' ? file.changes : []))
  const moments = new Set([0, ...notes.map(({ end }) => end)])
  for (const { begin, end, durable } of [...names, ...changes]) {
    for (const each of [begin, end, durable]) moments.add(each)
  }
  moments.delete(Number.POSITIVE_INFINITY)
  return [...moments].sort((a, b) => a - b)
}

/** @returns the number of acknowledged points compared */
async function compare(dataDir: string, promised: Promised, isAgain: boolean): Promise<number> {
  const added = pointsOf({ number: 1_000_000, count: 1 })
  let before: ReadonlySet<string>
  let id: string
  {
    await using points = await openPoints(dataDir, logger)
    before = await compareWith(points.collection, promised)
    if (!isAgain) return promised.live.size
    before = await repeatInserts(points.collection, promised, before)
    id = (await insertIds(points.collection, added))[0]!
  }
  await using points = await openPoints(dataDir, logger)
  const after = await everyId(points.collection)
  for (const each of [...before, id])
    if (!after.delete(each)) throw new Error(`${each} is lost after another start`)
  if (after.size > 0) throw new Error(`${after.size} points appear after another start`)
  await checkPoint(points.collection, id, added[0]!)
  for (const [each, point] of promised.live) await checkPoint(points.collection, each, point)
  return promised.live.size
}

/**
 * Opens a data directory and compares it with a program's notes.
 *
 * @returns the number of acknowledged points compared
 */
export function compareWithNotes(dataDir: string, notes: readonly Note[]): Promise<number> {
  return compare(dataDir, promisedBy(notes), true)
}

async function compareWith(
  collection: Collection,
  { live, leaving, gone, changing, unanswered }: Promised,
): Promise<ReadonlySet<string>> {
  const found = await everyId(collection)
  const unknown = new Set(found)
  for (const [id, point] of live) {
    if (!unknown.delete(id)) throw new Error(`the acknowledged point ${id} is lost`)
    await checkPoint(collection, id, point)
  }
  for (const [id, point] of leaving) if (unknown.delete(id)) await checkPoint(collection, id, point)
  for (const [change, before] of changing) await checkChange(collection, change, before, unknown)
  const stored = new Map<number, number>()
  for (const id of unknown) {
    if (gone.has(id)) throw new Error(`the deleted point ${id} is back`)
    const { payload } = (await collection.get(id))!
    const origin = originOf(payload.content)
    const number = Number(origin?.marker.slice(1))
    const expected = unanswered.get(number)?.[origin!.index]
    if (expected === undefined) throw new Error(`the point ${id} was never stored`)
    await checkPoint(collection, id, expected)
    stored.set(number, (stored.get(number) ?? 0) + 1)
  }
  for (const [number, count] of stored) {
    const whole = unanswered.get(number)!.length
    if (count !== whole) throw new Error(`of a batch of ${whole} points ${count} are there`)
  }
  return found
}

/**
 * Repeats inserts with their keys: a stored insert returns its ids, any other is stored now.
 *
 * @returns the ids of all points afterwards
 */
async function repeatInserts(
  collection: Collection,
  { keyed, unanswered }: Promised,
  before: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const found = new Set(before)
  for (const { number, count, ids } of keyed) {
    const repeated = await insertNoted(collection, { number, count })
    if (ids !== undefined && repeated.join() !== ids.join())
      throw new Error(`the insert ${number} was repeated under its key and has other ids`)
    if (ids !== undefined) continue
    const [stored, lost] = [repeated.filter((id) => found.has(id)), repeated.filter((id) => !found.has(id))]
    if (stored.length > 0 && lost.length > 0) throw new Error(`the insert ${number} was repeated in part`)
    for (const [index, id] of repeated.entries()) {
      await checkPoint(collection, id, unanswered.get(number)![index]!)
      found.add(id)
    }
  }
  const now = await everyId(collection)
  if (now.size !== found.size)
    throw new Error(`${now.size - found.size} points more after inserts were repeated`)
  return now
}

/** Asserts that a change by filter happened to all of its points or none. @param unknown loses the points */
async function checkChange(
  collection: Collection,
  change: GroupChange,
  before: ReadonlyMap<string, NewPoint>,
  unknown: Set<string>,
): Promise<void> {
  let changed = 0
  for (const [id, point] of before) {
    const after = afterChange(point, change)
    const found = unknown.delete(id) ? await collection.get(id) : undefined
    if (
      found === undefined
        ? after === undefined
        : after !== undefined && differenceOf(found, after) === undefined
    )
      changed += 1
    else if (found === undefined) throw new Error(`the acknowledged point ${id} is lost in a change`)
    else await checkPoint(collection, id, point)
  }
  if (changed !== 0 && changed !== before.size)
    throw new Error(`of a change of ${before.size} points ${changed} have happened`)
}

/** All ids, from a search with a limit above the number of points. */
async function everyId(collection: Collection): Promise<Set<string>> {
  const { points, dimension } = collection.stats
  if (points === 0) return new Set()
  const query = {
    vector: new Float32Array(dimension),
    metric: 'Euclidean',
    limit: points + 1,
    ef: 64,
  } as const
  const [ids] = (await collection.search([query])).ids.strings()
  if (ids!.length !== points) throw new Error(`a search for all finds ${ids!.length} of ${points} points`)
  return new Set(ids)
}

async function checkPoint(collection: Collection, id: string, expected: NewPoint): Promise<void> {
  const found: Point | undefined = await collection.get(id)
  if (found === undefined) throw new Error(`the point ${id} cannot be read`)
  const difference = differenceOf(found, expected)
  if (difference !== undefined) throw new Error(`the point ${id} has ${difference}`)
}

const logger = createLogger({ level: 'silent', pretty: false })
