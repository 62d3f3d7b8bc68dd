import type { History } from './history.ts'

/** The longest times, in milliseconds, during which no node answered any client. */
export interface Waits {
  readonly writesMs: number
  /** Reads of `latest`. */
  readonly latestMs: number
  /** Reads of `session` and `available`. */
  readonly readsMs: number
}

export interface Interruption extends Waits {
  readonly fault: string
}

/** The longest waits of clients between two moments. */
export function longestWaits({ writes, reads }: History, fromMs: number, toMs: number): Waits {
  const longest = (ends: readonly number[]): number => {
    const inside = ends.filter((ms) => ms > fromMs && ms < toMs).sort((a, b) => a - b)
    const moments = [fromMs, ...inside, toMs]
    return Math.max(...moments.slice(1).map((ms, index) => ms - moments[index]!))
  }
  const isLatest = ({ consistency }: History['reads'][number]): boolean => consistency === 'latest'
  return {
    writesMs: longest(writes.filter(({ outcome }) => outcome === 'ok').map(({ endMs }) => endMs)),
    latestMs: longest(reads.filter(isLatest).map(({ endMs }) => endMs)),
    readsMs: longest(reads.filter((read) => !isLatest(read)).map(({ endMs }) => endMs)),
  }
}

/** A table row for each kind of fault: its number, and the median and maximum of each wait. */
export function tableOf(interruptions: readonly Interruption[]): string {
  const kinds = [...new Set(interruptions.map(({ fault }) => fault))].sort()
  const lines = kinds.map((kind) => {
    const own = interruptions.filter(({ fault }) => fault === kind)
    const cells = [own.map(each('readsMs')), own.map(each('latestMs')), own.map(each('writesMs'))].map(cellOf)
    return `| ${kind} | ${own.length} | ${cells.join(' | ')} |`
  })
  return [
    '| fault | times | reads: median, longest | reads of latest | writes |',
    '| --- | --- | --- | --- | --- |',
    ...lines,
  ].join('\n')
}

const each =
  (wait: keyof Waits) =>
  (interruption: Interruption): number =>
    interruption[wait]

function cellOf(waits: readonly number[]): string {
  const sorted = waits.toSorted((a, b) => a - b)
  return `${seconds(sorted[Math.floor(sorted.length / 2)]!)}, ${seconds(sorted.at(-1)!)}`
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
