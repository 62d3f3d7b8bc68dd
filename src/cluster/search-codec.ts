import type { AnswerRoom } from '../base/budgets.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import { distanceMetrics, type Include, type SearchQuery } from '../base/point.ts'
import type { HitDetails, Profile, Ranks, SearchPlan, SearchResults } from '../base/search-results.ts'
import { Turn } from '../base/turns.ts'
import { detailBytes } from '../search/hit-details.ts'
import { readFilter, writeFilter } from './filter-bytes.ts'
import type { PackedReader, PackedWriter } from './packed-bytes.ts'
import { nameOf, readOptional, readPayload, writeOptional, writePayload } from './packed-values.ts'

/** The encoding of searches and their results on the link: one field after the other, as `PackedWriter` writes them. */
export function writeQueries(to: PackedWriter, queries: readonly SearchQuery[]): void {
  to.count(queries.length)
  for (const query of queries) {
    to.byte(distanceMetrics.indexOf(query.metric))
    to.byte((query.exact ? flags.exact : 0) | (query.profile ? flags.profile : 0))
    to.count(query.limit)
    to.count(query.ef)
    if (typeof query.vector === 'string') throw new RangeError('a query on the link must have its vector')
    to.vector(query.vector)
    writeOptional(to, query.filter, (filter) => writeFilter(to, filter))
    writeOptional(to, query.maxDistance, (distance) => to.float64(distance))
    writeOptional(to, query.include, (include) => writeInclude(to, include))
  }
}

/** Reads queries. All of them are ranked. */
export function readQueries(from: PackedReader): SearchQuery[] {
  return Array.from({ length: from.length(queryBytesMin) }, () => {
    const metric = nameOf(distanceMetrics, from.byte())
    const set = from.byte()
    const [limit, ef, vector] = [from.count(), from.count(), from.vector()]
    return {
      ...{ metric, limit, ef, vector, ranked: true },
      filter: readOptional(from, () => readFilter(from)),
      exact: (set & flags.exact) !== 0,
      maxDistance: readOptional(from, () => from.float64()),
      include: readOptional(from, () => readInclude(from)),
      profile: (set & flags.profile) !== 0,
    }
  })
}

const flags = { exact: 1, profile: 2 } as const
const queryBytesMin = 8

/** Writes the results of ranked queries, in turns. Distances are left out: they follow from the keys. */
export async function writeResults(
  to: PackedWriter,
  { ids, ranks, details, profiles, plans }: FoundByPeer,
): Promise<void> {
  const turn = new Turn()
  to.count(ids.length)
  for (let list = 0; list < ids.length; list += 1) to.count(ids.lengthOf(list))
  to.raw(ids.bytes.subarray(0, ids.total * idBytes))
  to.float64s(ranks.keys)
  to.float64s(ranks.sequences)
  for (const [at, each] of details.entries()) {
    writeOptional(to, each, () => {})
    for (const hit of each ?? []) {
      writeDetails(to, hit)
      if (turn.isOver) await turn.next()
    }
    writeOptional(to, profiles[at], (profile) => writeProfile(to, profile))
    writeOptional(to, plans[at], (plan) => writePlan(to, plan))
  }
}

/** Results without distances: the asking node computes these from the keys. */
export type FoundByPeer = Omit<SearchResults, 'distances' | 'plans' | 'ranks'> & {
  readonly plans: readonly (SearchPlan | undefined)[]
  readonly ranks: Ranks
}

/** Reads in turns what `writeResults` has written. @param room counts what is read */
export async function readResults(from: PackedReader, room?: AnswerRoom): Promise<FoundByPeer> {
  const turn = new Turn()
  let end = 0
  const ends = Array.from({ length: from.length(1) }, () => (end += from.count()))
  const ids = new IdLists(from.raw(end * idBytes), ends)
  const ranks = { keys: from.float64s(end), sequences: from.float64s(end) }
  const details: (readonly HitDetails[] | undefined)[] = []
  const profiles: (Profile | undefined)[] = []
  const plans: (SearchPlan | undefined)[] = []
  for (let list = 0; list < ids.length; list += 1) {
    const hits = readOptional(from, (): HitDetails[] => [])
    for (let left = ids.lengthOf(list); hits !== undefined && left > 0; left -= 1) {
      const hit = readDetails(from)
      room?.add(detailBytes(hit))
      hits.push(hit)
      if (turn.isOver) await turn.next()
    }
    details.push(hits)
    profiles.push(readOptional(from, () => readProfile(from)))
    plans.push(readOptional(from, () => readPlan(from)))
  }
  return { ids, ranks, details, profiles, plans }
}

export function writeInclude(to: PackedWriter, include: Include): void {
  const names = ['distance', 'payload', 'vector', 'version'] as const
  to.byte(names.reduce((set, name, bit) => set | (Number(include[name]) << bit), 0))
  const { attributes } = include
  to.byte(attributes === undefined ? 0 : attributes === 'all' ? 1 : 2)
  if (typeof attributes !== 'object') return
  to.count(attributes.length)
  for (const path of attributes) to.text(path)
}

export function readInclude(from: PackedReader): Include {
  const set = from.byte()
  const [distance, payload, vector, version] = [1, 2, 4, 8].map((bit) => (set & bit) !== 0) as [
    boolean,
    boolean,
    boolean,
    boolean,
  ]
  const kind = from.byte()
  const attributes =
    kind === 2 ? Array.from({ length: from.length(1) }, () => from.text()) : kind === 1 ? 'all' : undefined
  return { distance, payload, vector, version, attributes }
}

export function writeDetails(to: PackedWriter, { payload, vector, version }: HitDetails): void {
  writeOptional(to, payload, (each) => writePayload(to, each))
  writeOptional(to, vector, (each) => to.vector(each))
  writeOptional(to, version, (each) => to.float64(each))
}

export function readDetails(from: PackedReader): HitDetails {
  return {
    payload: readOptional(from, () => readPayload(from)),
    vector: readOptional(from, () => from.vector()),
    version: readOptional(from, () => from.float64()),
  }
}

function writePlan(to: PackedWriter, { plan, reason }: SearchPlan): void {
  to.byte(planNames.indexOf(plan))
  to.text(reason)
}

function readPlan(from: PackedReader): SearchPlan {
  return { plan: nameOf(planNames, from.byte()), reason: from.text() }
}

function writeProfile(to: PackedWriter, profile: Profile): void {
  writePlan(to, profile)
  for (const name of profileNumbers) to.float64(profile[name])
  writeOptional(to, profile.recallEstimate, (recall) => to.float64(recall))
}

function readProfile(from: PackedReader): Profile {
  const plan = readPlan(from)
  const numbers = Object.fromEntries(profileNumbers.map((name) => [name, from.float64()])) as Pick<
    Profile,
    (typeof profileNumbers)[number]
  >
  return { ...plan, ...numbers, recallEstimate: readOptional(from, () => from.float64()) }
}

/** The index of a plan is its number. */
const planNames: readonly Profile['plan'][] = [
  'empty',
  'scan of all points',
  'scan of matching points',
  'graph',
]

const profileNumbers = [
  ...(['points', 'matching', 'compared', 'measured', 'ef', 'efMultiplier'] as const),
  ...(['filterUs', 'queueUs', 'searchUs'] as const),
]
