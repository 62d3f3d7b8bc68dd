import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { DiskHistory, FileChange, FileHistory } from './disk-history.ts'

/** What happens to the unsynced changes when the power fails. */
export type Loss =
  /** All are kept: the process ended, not the machine. */
  | { readonly kind: 'kept' }
  /** All are lost. */
  | { readonly kind: 'dropped' }
  /** The first ones are kept, and some sectors of the next one. */
  | { readonly kind: 'torn'; readonly sectorBytes: number }
  /** Each sector has its state at an independent moment since its last sync. */
  | { readonly kind: 'reordered'; readonly sectorBytes: number }

/**
 * Writes files as a disk can hold them after a power failure at a moment of a recording.
 *
 * Name changes are kept in order, as in a journal: some of the unsynced ones, and none after the first lost one. A
 * sector that was never written and is before the end of its file reads as zeros.
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
  // The reserved space: its contents do not matter, and an empty file saves filling it at every start.
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

/** Returns the ranges of a change's bytes that are kept. */
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
      // By sector: the index of the first change that it lacks. Durable changes are kept in all their sectors.
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
  // A change of length is atomic.
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
