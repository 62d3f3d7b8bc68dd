import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { DiskHistory, FileChange, FileHistory } from './disk-history.ts'

/** What became of the changes that nothing had synced when the power went. */
export type Loss =
  /** All of them stand: the process ended, not the machine. */
  | { readonly kind: 'kept' }
  /** None of them. */
  | { readonly kind: 'dropped' }
  /** The first ones stand, and of the next one some sectors. */
  | { readonly kind: 'torn'; readonly sectorBytes: number }
  /** Each sector as it was at a time of its own since it was last synced. */
  | { readonly kind: 'reordered'; readonly sectorBytes: number }

/**
 * Makes the files that a disk can hold when the power goes at a moment of a recording.
 *
 * Names are made in order, as journals do: some of those that were not synced, and none after the first that
 * is missing. A sector that was never written and lies below the end of its file reads as zeros.
 */
export function writeImage(
  { names }: DiskHistory,
  options: {
    readonly from: string
    readonly to: string
    readonly moment: number
    readonly loss: Loss
    readonly random: () => number
  },
): void {
  const { from, to, moment, loss, random } = options
  const begun = names.filter(({ begin }) => begin <= moment)
  const unsafe = begun.filter(({ durable }) => durable > moment)
  const keptCount =
    loss.kind === 'kept'
      ? unsafe.filter(({ end }) => end <= moment).length
      : loss.kind === 'dropped'
        ? 0
        : Math.floor(random() * (unsafe.length + 1))
  const kept = new Set(unsafe.slice(0, keptCount))
  const files = new Map<string, FileHistory | 'directory'>([[from, 'directory']])
  for (const change of begun) {
    if (change.durable > moment && !kept.has(change)) continue
    for (const { path, file } of change.names) {
      if (file === undefined) files.delete(path)
      else files.set(path, file)
    }
  }
  mkdirSync(to, { recursive: true, mode: 0o700 })
  for (const [path, file] of files) {
    const target = join(to, relative(from, path))
    if (file === 'directory') mkdirSync(target, { recursive: true, mode: 0o700 })
    else if (!path.endsWith('/reserve')) writeContent(target, file, { moment, loss, random })
  }
  // Space put aside: what stands in it is of no matter, and a hole need not be filled at every start.
  writeFileSync(join(to, 'reserve'), '')
  truncateSync(join(to, 'reserve'), 4 * 1024 * 1024)
}

function writeContent(
  path: string,
  { changes }: FileHistory,
  options: { readonly moment: number; readonly loss: Loss; readonly random: () => number },
): void {
  const { moment, loss, random } = options
  const begun = changes.filter(({ begin }) => begin <= moment)
  const content = Buffer.alloc(
    begun.reduce((most, each) => Math.max(most, each.offset + (each.bytes?.length ?? 0)), 0),
  )
  const keeps = keeperOf(begun, moment, loss, random)
  let size = 0
  for (const change of begun) size = applyTo(content, size, change, keeps)
  writeFileSync(path, content.subarray(0, size), { mode: 0o600 })
}

/** Decides which bytes of a change stand: gives ranges of them. */
type Keeper = (change: FileChange) => readonly (readonly [number, number])[]

function keeperOf(begun: readonly FileChange[], moment: number, loss: Loss, random: () => number): Keeper {
  const all = ({ offset, bytes }: FileChange): [number, number][] => [[offset, offset + (bytes?.length ?? 0)]]
  const unsafe = begun.filter(({ durable }) => durable > moment)
  switch (loss.kind) {
    case 'kept':
      return (change) => (change.end <= moment ? all(change) : [])
    case 'dropped':
      return (change) => (change.durable <= moment ? all(change) : [])
    case 'torn': {
      const tornAt = Math.floor(random() * (unsafe.length + 1))
      const whole = new Set(unsafe.slice(0, tornAt))
      return (change) => {
        if (change.durable <= moment || whole.has(change)) return all(change)
        return change === unsafe[tornAt] ? sectorsOf(change, loss.sectorBytes, () => random() < 0.5) : []
      }
    }
    case 'reordered': {
      // By sector, how far the disk has come; a change that is safe has come to every sector of its.
      const until = new Map<number, number>()
      const positions = new Map(begun.map((change, index) => [change, index]))
      return (change) =>
        change.durable <= moment
          ? all(change)
          : sectorsOf(change, loss.sectorBytes, (sector) => {
              const position = until.get(sector) ?? Math.floor(random() * (begun.length + 1))
              until.set(sector, position)
              return positions.get(change)! < position
            })
    }
  }
}

function sectorsOf(
  { offset, bytes }: FileChange,
  sectorBytes: number,
  isKept: (sector: number) => boolean,
): [number, number][] {
  // A file's length is one thing: it changes or not.
  if (bytes === undefined) return isKept(-1) ? [[offset, offset]] : []
  const end = offset + bytes.length
  const ranges: [number, number][] = []
  for (let sector = Math.floor(offset / sectorBytes); sector * sectorBytes < end; sector += 1) {
    if (!isKept(sector)) continue
    ranges.push([Math.max(offset, sector * sectorBytes), Math.min(end, (sector + 1) * sectorBytes)])
  }
  return ranges
}

/** @returns the size of the file afterwards */
function applyTo(content: Buffer, size: number, change: FileChange, keeps: Keeper): number {
  const ranges = keeps(change)
  if (change.bytes === undefined) {
    if (ranges.length === 0) return size
    content.fill(0, change.offset)
    return change.offset
  }
  let end = size
  for (const [from, to] of ranges) {
    change.bytes.copy(content, from, from - change.offset, to - change.offset)
    end = Math.max(end, to)
  }
  return end
}
