import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { attributesFromJson } from '../../src/base/attributes.ts'
import { createLogger } from '../../src/base/log.ts'
import { contentTypes } from '../../src/base/point.ts'
import { checkDatabase } from '../../src/storage/tables.ts'
import { insertIds } from '../support/insert-ids.ts'
import { matches } from '../support/plain-filter.ts'
import type { Probed } from './damage-probe.ts'
import { pointsOf } from './notes.ts'
import { differenceOf, type OraclePoint } from './oracle.ts'
import { openPoints } from './points.ts'
import { probedFilters } from './probed-filters.ts'

/** Damage to one file. */
export type Damage =
  | { readonly kind: 'flip'; readonly byte: number; readonly bit: number }
  | { readonly kind: 'zero'; readonly sector: number }
  | { readonly kind: 'truncate'; readonly bytes: number }

/** The outcome of a start with a damaged file. */
export type Outcome =
  /** Everything is served as stored: the damage hit nothing relevant, or was repaired. */
  | 'whole'
  /** It does not start, and reports the damaged file and the remedy. */
  | 'refused'
  /** It starts, and reading the damaged point fails with a message that names the file. */
  | 'read refused'
  /** The process crashed in native code. */
  | 'crashed'
  /** It serves missing, additional or wrong data without an error. */
  | 'WRONG'

export interface Finding {
  readonly outcome: Outcome
  readonly detail: string
  /** Whether `vicinal doctor` found the damage. */
  readonly isSeenByDoctor: boolean
}

/** A data directory with points, deletions and an index; each damage is applied to a copy. */
export class DamagedDirectories implements AsyncDisposable {
  readonly #directory: string
  readonly #points = new Map<string, OraclePoint>()
  readonly #gone: string[] = []
  #probe: Probe | undefined

  private constructor(directory: string) {
    this.#directory = directory
  }

  static async create(): Promise<DamagedDirectories> {
    const root = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
    const made = new DamagedDirectories(await mkdtemp(join(root, 'vicinal-damage-')))
    await made.#fill()
    return made
  }

  sizeOf(file: string): number {
    return readFileSync(join(this.#whole, file)).length
  }

  /** Byte offsets within the contents of some points. */
  contentBytes(file: string, count: number): number[] {
    const bytes = readFileSync(join(this.#whole, file))
    return [...this.#points.values()]
      .slice(0, count)
      .map(({ payload }) => bytes.lastIndexOf(payload.content) + 4)
  }

  /**
   * The damages to collections.mdb that pass the check before every start. The check reads the file like any other, so it
   * cannot crash this process.
   */
  unnoticed(damages: readonly Damage[]): Damage[] {
    const whole = readFileSync(join(this.#whole, 'collections.mdb'))
    const path = join(this.#directory, 'collections.mdb')
    // Repeated truncations of one file need no rewrite each time.
    let bytes = 0
    return damages.filter((damage) => {
      if (damage.kind === 'truncate' && damage.bytes <= bytes) truncateSync(path, damage.bytes)
      else writeFileSync(path, damaged(Buffer.from(whole), damage))
      bytes = damage.kind === 'truncate' ? damage.bytes : 0
      const checked = checkDatabase(path)
      return typeof checked !== 'string' && [...checked.values()].every((fault) => fault === undefined)
    })
  }

  async damage(file: string, damage: Damage): Promise<Finding> {
    const dataDir = await mkdtemp(join(this.#directory, 'damaged-'))
    cpSync(this.#whole, dataDir, { recursive: true })
    const path = join(dataDir, file)
    writeFileSync(path, damaged(readFileSync(path), damage))
    this.#probe ??= new Probe()
    const probed = await this.#probe.ask({ dataDir, ids: [...this.#points.keys(), ...this.#gone] })
    await rm(dataDir, { recursive: true })
    await rm(`${dataDir}-doctor`, { recursive: true, force: true })
    if (typeof probed !== 'string') return this.#judge(probed, path)
    this.#probe = undefined
    return { outcome: 'crashed', detail: probed, isSeenByDoctor: false }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#probe?.[Symbol.asyncDispose]()
    await rm(this.#directory, { recursive: true })
  }

  get #whole(): string {
    return join(this.#directory, 'whole')
  }

  async #fill(): Promise<void> {
    await using points = await openPoints(this.#whole, createLogger({ level: 'silent', pretty: false }))
    for (let number = 1; number <= 25; number += 1) {
      const stored = pointsOf({ number, count: 1 + (number % 8) })
      const ids = await insertIds(points.collection, stored)
      for (const [index, id] of ids.entries()) this.#points.set(id, stored[index]!)
    }
    for (const id of [...this.#points.keys()].filter((_, index) => index % 5 === 0)) {
      await points.collection.remove(id)
      this.#points.delete(id)
      this.#gone.push(id)
    }
  }

  #judge(probed: Probed, path: string): Finding {
    const { doctor } = probed
    const isSeenByDoctor = typeof doctor === 'string' || doctor.damage.length + doctor.staleIndex.length > 0
    const finding = (outcome: Outcome, detail: string): Finding => ({ outcome, detail, isSeenByDoctor })
    if (probed.refusal !== undefined) {
      const isClear =
        probed.refusal.includes(path) &&
        /restore a snapshot|restore the newest snapshot|delete it/.test(probed.refusal)
      return finding(isClear ? 'refused' : 'WRONG', probed.refusal.replaceAll(this.#directory, ''))
    }
    const faults = Object.values(probed.points!).flatMap(({ fault }) => fault ?? [])
    if (faults.some((fault) => !fault.includes(path))) return finding('WRONG', faults.join('; '))
    const difference = this.#difference(probed)
    if (difference !== undefined) return finding('WRONG', difference)
    return faults.length > 0 ? finding('read refused', faults[0]!) : finding('whole', '')
  }

  #difference({ points, found, matching }: Probed): string | undefined {
    for (const id of this.#gone) if (points![id] !== undefined) return `the deleted point ${id} can be read`
    for (const [id, expected] of this.#points) {
      const read = points![id]
      if (read === undefined) return `the point ${id} is missing`
      if (read.fault !== undefined) continue
      const payload = {
        contentType: contentTypes[read.contentType!]!,
        content: read.content!,
        attributes: read.attributes === undefined ? undefined : attributesFromJson(read.attributes),
        expiresAtUs: read.expiresAtUs,
      }
      const difference = differenceOf({ vector: Float32Array.from(read.vector!), payload }, expected)
      if (difference !== undefined) return `the point ${id} has ${difference}`
    }
    for (const ids of found!) {
      if (ids.length !== this.#points.size || !ids.every((id) => this.#points.has(id)))
        return `a search finds ${ids.length} points of ${this.#points.size}, or others`
    }
    for (const [at, filter] of probedFilters.entries()) {
      const expected = [...this.#points].flatMap(([id, { payload }]) =>
        matches(filter, { id, payload, version: 0 }) ? [id] : [],
      )
      const found = matching![at]!
      if (found.length !== expected.length || !expected.every((id) => found.includes(id)))
        return `${JSON.stringify(filter)} matches ${found.length} points instead of ${expected.length}`
    }
    return undefined
  }
}

function damaged(content: Buffer, damage: Damage): Buffer {
  if (content.length === 0) return Buffer.from('not what it was')
  if (damage.kind === 'truncate') return content.subarray(0, damage.bytes)
  if (damage.kind === 'zero') {
    const at = damage.sector * sectorBytes
    return content.fill(0, at, Math.min(at + sectorBytes, content.length))
  }
  content[damage.byte]! ^= 1 << damage.bit
  return content
}

export const sectorBytes = 512

/** Truncations of a file of `size` bytes at every `step`th length and just before each page end, longest first. */
export function truncations(size: number, step: number): Damage[] {
  const isTaken = (bytes: number): boolean => bytes % step === 0 || bytes % pageBytes === pageBytes - 1
  const lengths = Array.from({ length: size }, (_, index) => size - 1 - index).filter(isTaken)
  return lengths.map((bytes) => ({ kind: 'truncate', bytes }))
}

/** Truncations, zeroed sectors and, most often, flipped bits at random places of a file of `size` bytes. */
export function anywhere(size: number, count: number, random: () => number): Damage[] {
  return Array.from({ length: count }, (_, index) => {
    const at = Math.floor(random() * size)
    if (index % 4 === 0) return { kind: 'truncate', bytes: at }
    if (index % 4 === 1) return { kind: 'zero', sector: Math.floor(at / sectorBytes) }
    return { kind: 'flip', byte: at, bit: Math.floor(random() * 8) }
  })
}

/** Bits of LMDB's file: a third in its meta pages, a third at page starts, a third anywhere. */
export function flips(size: number, count: number, random: () => number): Damage[] {
  const below = (end: number): number => Math.floor(random() * end)
  const places = [
    () => below(2) * pageBytes + below(168),
    () => below(size / pageBytes) * pageBytes + below(64),
    () => below(size),
  ]
  return Array.from({ length: count }, (_, index) => ({
    kind: 'flip',
    byte: places[index % places.length]!(),
    bit: below(8),
  }))
}

/** The page size of LMDB's file on most machines. */
const pageBytes = 4096

/** The stores that a probe opens share writer threads, as those of tests do. */
const sharedThreads = `--import=${new URL('../../scripts/test-threads.ts', import.meta.url)}`

/** A process that opens one directory after the other until one of them crashes it. */
class Probe implements AsyncDisposable {
  readonly #process: ChildProcess = spawn(
    process.execPath,
    [sharedThreads, join(import.meta.dirname, 'damage-probe.ts')],
    { stdio: ['pipe', 'pipe', 'ignore'] },
  )
  readonly #ended: Promise<string> = once(this.#process, 'close').then(
    ([code, signal]) => `ended with ${signal ?? code}`,
  )
  readonly #lines: AsyncIterator<string> = createInterface(this.#process.stdout!)[Symbol.asyncIterator]()

  /** @returns the result, or how the process ended */
  async ask(question: object): Promise<Probed | string> {
    this.#process.stdin!.write(`${JSON.stringify(question)}\n`)
    const { value, done } = await this.#lines.next()
    return done ? this.#ended : (JSON.parse(value) as Probed)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.stdin!.end()
    await this.#ended
  }
}
