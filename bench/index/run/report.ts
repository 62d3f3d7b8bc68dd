import { median } from '../../shared/median.ts'
import { shown, table } from '../../shared/table.ts'
import { isVicinal } from '../contenders/registry.ts'
import type { ContenderResult, SearchResult, SetResult } from './compare.ts'
import { recallTargets } from './measure.ts'

/** The tables of one data set, as Markdown. */
export function reportOf({ set, contenders }: SetResult, k: number): string {
  const threads =
    contenders.find(({ searches }) => searches.length > 0)?.searches.map((each) => each.threads) ?? []
  const parts = [
    `## ${set.name}: ${set.description}; ${set.count} rows, ${set.queryCount} queries, k ${k}`,
    '### Build and memory',
    table(buildHeadings, contenders.map(buildRow)),
    ...contenders.filter(isHnswlib).flatMap((hnswlib) => buildRatioTables(hnswlib, contenders)),
    ...threads.flatMap((count) => [
      `### Queries per second at recall@${k}, ${count} thread${count === 1 ? '' : 's'} (median of rounds)`,
      table(
        ['', ...recallTargets.map(String), 'highest recall', 'cores used', 'call cost, µs'],
        [...contenders.map((contender) => speedRow(contender, count))],
      ),
      ...ratioTables(contenders, count),
    ]),
    ...contenders
      .filter(({ fault }) => fault !== undefined)
      .map(({ name, fault }) => `${name} failed: ${fault}`),
  ]
  return parts.join('\n\n')
}

/** The figures of one data set that are quoted in docs/decisions/benchmarks.md, as Markdown. */
export function summaryOf({ contenders }: SetResult): string {
  const threads = contenders[0]?.searches.map((each) => each.threads) ?? []
  const rows = contenders.map((contender) => {
    const speeds = threads.map((count) => {
      const search = searchOf(contender, count)
      return recallTargets.map((_, place) => shown(search && median(speedsOf(search, place))))
    })
    const build = contender.builds.at(-1)
    return [
      contender.name,
      ...recallTargets.map((_, place) => speeds.map((each) => each[place]).join(' / ')),
      build === undefined ? '-' : seconds(build.seconds),
      mebibytes(build?.memoryBytes),
    ]
  })
  const [ours] = contenders.filter(({ name }) => isVicinal(name))
  const sentences = contenders.filter(isHnswlib).map((hnswlib) => {
    const factors = threads.map((count) => {
      const each = ratios(ours ?? hnswlib, [hnswlib], count).map((ratio) => ratio.replace('x', ''))
      return `${each.slice(0, -1).join(', ')} and ${each.at(-1)} times as fast as ${hnswlib.name} on ${count} thread${count === 1 ? '' : 's'}`
    })
    return `Within each round, ${(ours ?? hnswlib).name} is ${factors.join(', and ')}.`
  })
  const headings = ['', ...recallTargets.map(String), 'built on all cores', 'memory, MiB']
  return [table(headings, rows), ...sentences].join('\n\n')
}

/** Describes each contender, for the end of the report. */
export function describe(results: readonly SetResult[]): string {
  const known = new Map(
    results.flatMap(({ contenders }) => contenders.map(({ name, description }) => [name, description])),
  )
  const rows = [...known].flatMap(([name, description]) =>
    description === undefined
      ? []
      : [[name, description.version, description.flags, description.searchThreads]],
  )
  return `## Contenders\n\n${table(['', 'version', 'built and run with', 'all cores'], rows)}`
}

const buildHeadings = [
  '',
  'build, one thread',
  'build, all cores',
  'memory, MiB',
  'peak, MiB',
  'own figure, MiB',
]

/** Build times relative to the fastest hnswlib build with the same number of threads. */
function buildRatioTables(hnswlib: ContenderResult, contenders: readonly ContenderResult[]): string[] {
  const rest = contenders.filter((each) => each !== hnswlib)
  if (rest.length === 0) return []
  const ratio = (contender: ContenderResult, isOneThread: boolean): string => {
    const own = buildSeconds(contender, isOneThread)
    const theirs = buildSeconds(hnswlib, isOneThread)
    return own === undefined || theirs === undefined ? '-' : `${(theirs / own).toFixed(2)}x`
  }
  const rows = rest.map((contender) => [contender.name, ratio(contender, true), ratio(contender, false)])
  return [table([`build speed relative to ${hnswlib.name}`, 'one thread', 'all cores'], rows)]
}

function buildSeconds({ builds }: ContenderResult, isOneThread: boolean): number | undefined {
  return (isOneThread ? builds.find(({ threads }) => threads === 1) : builds.at(-1))?.seconds
}

function isHnswlib({ name }: ContenderResult): boolean {
  return name.startsWith('hnswlib')
}

function buildRow({ name, builds, reused, description }: ContenderResult): string[] {
  const one = builds.find(({ threads }) => threads === 1)
  const last = builds.at(-1)
  const many = last !== undefined && last.threads > 1 ? seconds(last.seconds) : undefined
  const onlyOne = description?.buildThreads === 'one' ? 'one thread only' : '-'
  return [
    `${name}${reused ? ' (built earlier)' : ''}`,
    one === undefined ? '-' : seconds(one.seconds),
    many ?? onlyOne,
    mebibytes(last?.memoryBytes),
    mebibytes(last?.peakBytes),
    mebibytes(last?.ownBytes),
  ]
}

function speedRow(contender: ContenderResult, threads: number): string[] {
  const search = searchOf(contender, threads)
  if (search === undefined) return [contender.name, ...recallTargets.map(() => '-'), '-', '-', '-']
  const samples = search.rounds.flatMap(({ samples }) => samples)
  const best = Math.max(0, ...search.sweep.map(({ recall }) => recall))
  const { callCostSeconds } = contender
  return [
    contender.name,
    ...recallTargets.map((_, place) => shown(median(speedsOf(search, place)))),
    best.toFixed(4),
    (median(samples.map(({ coresUsed }) => coresUsed)) ?? 0).toFixed(2),
    callCostSeconds === undefined ? '-' : (callCostSeconds * 1e6).toFixed(1),
  ]
}

/**
 * Speeds relative to each hnswlib, and for our own contenders also relative to the best of all others in each round.
 */
function ratioTables(contenders: readonly ContenderResult[], threads: number): string[] {
  const ours = contenders.filter(({ name }) => isVicinal(name))
  const hnswlibs = contenders.filter(isHnswlib)
  const others = contenders.filter((each) => !ours.includes(each) && !hnswlibs.includes(each))
  const against = (
    title: string,
    rows: readonly ContenderResult[],
    rivals: readonly ContenderResult[],
  ): string[] => {
    if (rows.length === 0 || rivals.length === 0) return []
    const cells = rows.map((each) => [each.name, ...ratios(each, rivals, threads)])
    return [table([`speed relative to ${title}`, ...recallTargets.map(String)], cells)]
  }
  return [
    ...hnswlibs.flatMap((hnswlib) =>
      against(
        hnswlib.name,
        contenders.filter((each) => each !== hnswlib),
        [hnswlib],
      ),
    ),
    ...against('the best of the others', ours, others),
  ]
}

/** The median over the rounds of this contender's speed divided by that of the best of `rivals` in the same round. */
function ratios(contender: ContenderResult, rivals: readonly ContenderResult[], threads: number): string[] {
  const search = searchOf(contender, threads)
  return recallTargets.map((_, place) => {
    if (search === undefined) return '-'
    const own = speedsOf(search, place)
    const perRound = own.map((speed, round) => {
      const speeds = rivals.map((rival) => {
        const theirs = searchOf(rival, threads)
        return theirs === undefined ? undefined : speedsOf(theirs, place)[round]
      })
      const best = Math.max(0, ...speeds.filter((each) => each !== undefined))
      return speed === undefined || best === 0 ? undefined : speed / best
    })
    const middle = median(perRound)
    return middle === undefined ? '-' : `${middle.toFixed(2)}x`
  })
}

function searchOf({ searches }: ContenderResult, threads: number): SearchResult | undefined {
  return searches.find((each) => each.threads === threads)
}

function speedsOf({ rounds }: SearchResult, place: number): (number | undefined)[] {
  return rounds.map(({ speeds }) => speeds[place] ?? undefined)
}

function seconds(value: number): string {
  return `${value.toFixed(1)} s`
}

function mebibytes(bytes: number | undefined): string {
  return bytes === undefined ? '-' : (bytes / 1024 / 1024).toFixed(0)
}
