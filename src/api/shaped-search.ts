import { DateTime, GeoPoint, type Scalar, scalarsAt } from '../base/attributes.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { CollectedIds, onlyIds } from '../base/filter-builder.ts'
import { IdLists, type SearchResults } from '../base/id-lists.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import { both } from '../base/key-filter.ts'
import {
  candidatesMax,
  detailBytes,
  type HitDetails,
  type HitGroup,
  type Include,
  nearness,
  type Profile,
  type ProfileStep,
  type SearchPlan,
  type SearchQuery,
} from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import type { AnswerShape, ShapedQuery } from './answer-shape.ts'
import type { ApiContext, Call, Database } from './call.ts'
import { noVector } from './validation.ts'

/**
 * Searches whose answer has a shape. Everything is done with searches and lists of the collection, so it is the same on
 * one node, on a serving thread and in a cluster:
 *
 *   examples ─> filter, legs, fusion (a search) ─> boost ─> rerank ─> diversity ─> groups ─> page: what is still stored
 *                       ^                                                            │
 *                       └──────── with a narrower filter, until groups are full ─────┘
 *
 * A score depends on its point and the query alone, so what one search finds can be compared with what another does. A
 * rank, which a reranker or diversity gives, comes before scores.
 */
export async function searchShaped(
  context: ApiContext,
  query: ShapedQuery,
  call: Call,
): Promise<SearchResults> {
  return await new ShapedSearch(context, query, call).answer()
}

interface Candidate {
  readonly id: string
  readonly sequence: number
  /** In units of the metric; NaN without a vector. */
  readonly distance: number
  /** The BM25 score; undefined without words. */
  readonly words: number | undefined
  score: number
  rerank: number | undefined
  /** Infinite for those that are in the order of their scores, after all others. */
  rank: number
}

/** Candidates with one value at the path of groups. */
interface Group {
  readonly value: Scalar
  members: Candidate[]
  /** Whether no other point has the value. */
  isComplete: boolean
}

class ShapedSearch {
  readonly #context: ApiContext
  readonly #database: Database
  readonly #call: Call
  readonly #shape: AnswerShape
  #query: SearchQuery
  /** Examples: they are in no answer. */
  readonly #without = new Set<string>()
  /** The nearness of the nearest point of the collection; undefined until it has been searched for. */
  #best: number | undefined
  #plan: SearchPlan | undefined
  #profile: Profile | undefined
  readonly #steps: ProfileStep[] = []
  /** How many candidates there are at first. */
  #room = 0

  constructor(context: ApiContext, { shape, ...query }: ShapedQuery, call: Call) {
    this.#context = context
    this.#database = context.database
    this.#query = query
    this.#shape = shape!
    this.#call = call
  }

  async answer(): Promise<SearchResults> {
    const { limit, filter } = this.#query
    const { boosts, rerank, diversity, groupBy } = this.#shape
    await this.#step('examples', async () => {
      await this.#useExamples()
      return this.#without.size
    })
    // A point can be among the best of both legs together without being so in one of them.
    const isHybrid = this.#query.words !== undefined && this.#query.vector.length > 0
    const wanted = Math.max(
      limit,
      boosts.length > 0 ? boostedMax : 0,
      diversity > 0 ? diversePool : 0,
      rerank?.count ?? 0,
      groupBy === undefined ? 0 : Math.max(isHybrid ? boostedMax : groupedMin, 4 * limit * groupBy.size),
    )
    this.#room = Math.min(wanted, candidatesMax(this.#context.limits.maxLimit))
    const [found] = (await this.#find([filter], this.#room)) as [Candidate[]]
    this.#query = { ...this.#query, profile: undefined }
    let ranked = found
    if (boosts.length > 0) await this.#step('boost', () => this.#boost(ranked))
    if (rerank !== undefined) await this.#step('rerank', () => this.#rerank(ranked, rerank))
    if (diversity > 0) await this.#step('diversity', () => this.#diversify(ranked, diversity))
    ranked = ranked.sort(inOrder)
    if (groupBy === undefined) return await this.#page(ranked)
    const groups: Group[] = []
    await this.#step('groups', async () => {
      groups.push(...(await this.#group(ranked, groupBy, found.length < this.#room)))
      return groups.reduce((sum, { members }) => sum + members.length, 0)
    })
    return await this.#page(
      groups.flatMap(({ members }) => members),
      groups,
    )
  }

  /** Notes what a step took. @param run returns the number of points that it left */
  async #step(step: string, run: () => Promise<number>): Promise<void> {
    const { signal } = this.#call
    if (signal?.aborted) throw cancellation(signal)
    const startMs = performance.now()
    const points = await run()
    if (step !== 'examples' || points > 0) {
      this.#steps.push({ step, points, us: Math.round((performance.now() - startMs) * 1000) })
    }
  }

  /**
   * Searches near what the examples say: their mean, or twice the mean of what shall be near less that of what shall not.
   * A vector of the query is one more example. Under Cosine, all count the same, whatever their length is.
   */
  async #useExamples(): Promise<void> {
    const { like, unlike } = this.#shape
    const { vector: own, metric } = this.#query
    if (like.length + unlike.length === 0) return
    const turn = new Turn()
    const read = async (id: string, field: string): Promise<Float32Array> => {
      this.#without.add(id)
      if (turn.isOver) await turn.next()
      const point = await this.#database.get(id, { signal: this.#call.signal })
      if (point === undefined) throw new DatabaseError('not_found', `point ${id} of ${field} not found`)
      return point.vector
    }
    const near = await Promise.all(like.map((id) => read(id, 'like')))
    const far = await Promise.all(unlike.map((id) => read(id, 'unlike')))
    if (typeof own === 'string') near.push(await read(own, this.#call.fields.nearId))
    else if (own.length > 0) near.push(own)
    const isCosine = metric === 'Cosine'
    const toward = await inTurns(meanOf(near, isCosine))
    const away = far.length === 0 ? undefined : await inTurns(meanOf(far, isCosine))
    const vector = Float32Array.from(toward, (value, at) =>
      away === undefined ? value : 2 * value - away[at]!,
    )
    this.#query = { ...this.#query, vector }
  }

  /**
   * Returns the best points for each of some filters, by score. The first call also finds the nearest of all points,
   * which scores are relative to.
   */
  async #find(filters: readonly (Filter | undefined)[], size: number): Promise<Candidate[][]> {
    const { vector, words, maxDistance, ef } = this.#query
    const room = size + this.#without.size
    const isByVector = words === undefined
    const include = isByVector ? undefined : scoresOnly
    const legs = filters.map(
      (filter): SearchQuery => ({
        ...this.#query,
        filter,
        limit: room,
        ef: Math.max(ef, room),
        include,
        cursor: undefined,
      }),
    )
    const needsBest = isByVector && this.#best === undefined
    const isAll = filters[0] === undefined && maxDistance === undefined
    if (needsBest && !isAll) {
      legs.push({ ...this.#query, filter: undefined, maxDistance: undefined, limit: 1, include: undefined })
    }
    const startMs = performance.now()
    const results = await this.#database.search(legs, { signal: this.#call.signal })
    const { ids, distances, sequences, details, profiles, plans } = results
    if (this.#steps.every(({ step }) => step === 'examples')) {
      this.#plan = plans[0]
      this.#profile = profiles[0]
      const us = Math.round((performance.now() - startMs) * 1000)
      const steps = this.#profile?.steps?.filter(({ step }) => step !== 'page')
      this.#steps.push(...(steps ?? [{ step: 'search', points: ids.lengthOf(0), us }]))
    }
    const lists = legs.map((_, list) => {
      const start = ids.startOf(list)
      return Array.from({ length: ids.lengthOf(list) }, (_, rank): Candidate => {
        const { score = 0, words: byWords } = details[list]?.[rank] ?? {}
        const distance = distances[start + rank]!
        return {
          id: idFromBytes(ids.bytes, (start + rank) * idBytes),
          sequence: sequences[start + rank]!,
          distance: vector.length === 0 ? Number.NaN : distance,
          words: byWords,
          score,
          rerank: undefined,
          rank: Number.POSITIVE_INFINITY,
        }
      })
    })
    if (isByVector) this.#scoreByNearness(lists, needsBest)
    return lists
      .slice(0, filters.length)
      .map((list) => list.filter(({ id }) => !this.#without.has(id)).slice(0, size))
  }

  #scoreByNearness(lists: readonly (readonly Candidate[])[], isFirst: boolean): void {
    const { metric } = this.#query
    for (const each of lists.flat()) each.score = nearness(metric, each.distance)
    // What only a narrower search has found must not exceed 1.
    if (isFirst) this.#best = lists.flat().reduce((best, { score }) => Math.max(best, score), 0)
    for (const each of lists.flat()) each.score = this.#best === 0 ? 0 : Math.min(1, each.score / this.#best!)
  }

  /** Raises the scores of what the boosts favour, and lowers the others, so that all stay within 0..1. */
  async #boost(candidates: readonly Candidate[]): Promise<number> {
    const { boosts } = this.#shape
    const { nowUs } = this.#database
    const ids = candidates.map(({ id }) => id)
    const recent = boosts.flatMap((boost) => ('path' in boost ? [boost] : []))
    const matching = new Map<object, Set<string>>()
    for (const boost of boosts) {
      if ('path' in boost) continue
      const found = new Set<string>()
      await this.#read(ids, nothing, ({ id }) => found.add(id), boost.filter)
      matching.set(boost, found)
    }
    const dates = new Map<string, number[]>()
    if (recent.length > 0) {
      const include = { ...nothing, attributes: recent.map(({ path }) => path) }
      await this.#read(ids, include, ({ id, payload }) => {
        dates.set(
          id,
          recent.map(({ path }) => latestAt(payload?.attributes, path)),
        )
      })
    }
    const sum = boosts.reduce((total, { weight }) => total + Math.abs(weight), 1)
    for (const each of candidates) {
      let { score } = each
      for (const boost of boosts) {
        const { weight } = boost
        const value =
          'path' in boost
            ? 0.5 **
              (Math.max(
                0,
                nowUs - (dates.get(each.id)?.[recent.indexOf(boost)] ?? Number.NEGATIVE_INFINITY),
              ) /
                boost.halfLifeUs)
            : Number(matching.get(boost)!.has(each.id))
        score += weight >= 0 ? weight * value : -weight * (1 - value)
      }
      each.score = score / sum
    }
    return candidates.length
  }

  /** Gives the best candidates the order that the endpoint finds. Points without a text stay where they are. */
  async #rerank(
    candidates: Candidate[],
    { count, text, skips }: NonNullable<AnswerShape['rerank']>,
  ): Promise<number> {
    const best = candidates.sort(inOrder).slice(0, count)
    const texts = new Map<string, string>()
    const include = { ...nothing, payload: true, attributes: [] }
    await this.#read(
      best.map(({ id }) => id),
      include,
      ({ id, payload }) => {
        const { contentType, content } = payload!
        if (contentType === 'Text' && content.trim() !== '')
          texts.set(id, content.slice(0, documentMax).toWellFormed())
      },
    )
    const sent = best.filter(({ id }) => texts.has(id))
    if (sent.length === 0) return 0
    let scores: readonly number[]
    try {
      const documents = sent.map(({ id }) => texts.get(id)!)
      scores = await this.#context.reranker!.rerank(text, documents, this.#call.signal)
    } catch (error) {
      if (skips && error instanceof DatabaseError && error.reason === 'rerank_unavailable') return 0
      throw error
    }
    for (const [at, each] of sent.entries()) {
      each.rerank = scores[at]!
      each.score = Math.min(1, Math.max(0, scores[at]!))
    }
    sent.sort((a, b) => b.rerank! - a.rerank!)
    for (const [rank, each] of sent.entries()) each.rank = rank
    return sent.length
  }

  /**
   * Maximal marginal relevance (Carbonell and Goldstein): each next hit has the best score for how little it is like the
   * hits before it.
   */
  async #diversify(candidates: Candidate[], diversity: number): Promise<number> {
    const { metric, limit } = this.#query
    const pool = candidates.sort(inOrder).slice(0, diversePool)
    const vectors = new Map<string, Float32Array>()
    await this.#read(
      pool.map(({ id }) => id),
      { ...nothing, vector: true },
      ({ id, vector }) => vectors.set(id, vector!),
    )
    // What has just been deleted is like nothing.
    const rows = pool.map(({ id }) => vectors.get(id))
    const scale = metric === 'Cosine' ? 2 : 1
    const closest = new Float64Array(pool.length)
    const left = new Set(pool.keys())
    const picks = this.#shape.groupBy === undefined ? Math.min(limit, pool.length) : pool.length
    const turn = new Turn()
    for (let rank = 0; rank < picks; rank += 1) {
      let next = -1
      let most = Number.NEGATIVE_INFINITY
      for (const at of left) {
        const gain = (1 - diversity) * pool[at]!.score - diversity * closest[at]!
        if (gain > most) [next, most] = [at, gain]
      }
      left.delete(next)
      pool[next]!.rank = rank
      for (const at of left) {
        if (turn.isOver) await turn.next()
        const [a, b] = [rows[next], rows[at]]
        if (a === undefined || b === undefined) continue
        const distance = scalarDistance(metric, a, b)
        const like = nearness(metric, metric === 'Euclidean' ? Math.sqrt(distance) : distance) / scale
        closest[at] = Math.max(closest[at]!, like)
      }
    }
    for (const [rank, at] of [...left].entries()) pool[at]!.rank = picks + rank
    return pool.length
  }

  /**
   * Returns the first groups, each full unless all of its points are in it: searches for points of other groups as long
   * as there are too few, and then within each group that is not full.
   *
   * @param isAll whether the candidates are all that match
   */
  async #group(
    candidates: Candidate[],
    { path, size }: NonNullable<AnswerShape['groupBy']>,
    isAll: boolean,
  ): Promise<Group[]> {
    const { limit, filter } = this.#query
    const groups = new Map<string, Group>()
    /** Those that are in no group. */
    const others = new CollectedIds()
    const add = async (found: readonly Candidate[], isComplete: boolean): Promise<void> => {
      const values = await this.#valuesAt(found, path)
      for (const each of found) {
        const value = values.get(each.id)
        if (value === undefined) {
          others.add(each.id)
          continue
        }
        const key = keyOf(value)
        const group = groups.get(key) ?? { value, members: [], isComplete }
        if (!groups.has(key) && groups.size === limit) continue
        groups.set(key, group)
        if (!group.members.some(({ id }) => id === each.id)) group.members.push(each)
      }
    }
    await add(candidates, isAll)
    let count = this.#room
    for (let isDone = isAll; groups.size < limit && !isDone; count = this.#more(count, 1)) {
      const known = [...groups.values()].map(({ value }) => value)
      const rest: Filter[] = [
        { kind: 'condition', path, test: { op: 'exists' } },
        { kind: 'not', of: { kind: 'condition', path, test: { op: 'in', values: known } } },
        { kind: 'not', of: await inTurns(others.filter()) },
      ]
      const [found] = await this.#findBoosted([both({ kind: 'all', of: rest }, filter)], count)
      isDone = found!.length < count
      await add(found!, isDone)
    }
    const isShort = ({ members, isComplete }: Group): boolean => !isComplete && members.length < size
    const short = [...groups.values()].filter(isShort)
    for (let start = 0; start < short.length; start += groupsPerSearch) {
      await this.#fill(short.slice(start, start + groupsPerSearch), path, size, isShort)
    }
    for (const group of groups.values()) group.members = group.members.sort(inOrder).slice(0, size)
    return [...groups.values()]
  }

  /** Fills groups, or finds all of their points. */
  async #fill(
    groups: readonly Group[],
    path: string,
    size: number,
    isShort: (group: Group) => boolean,
  ): Promise<void> {
    const { filter } = this.#query
    const others = new CollectedIds()
    let count = Math.max(size, this.#shape.boosts.length > 0 ? boostedPerGroup : 0)
    for (let open = groups.filter(isShort); open.length > 0; count = this.#more(count, open.length)) {
      const not: Filter = { kind: 'not', of: await inTurns(others.filter()) }
      const filters = open.map(({ value }): Filter => {
        const within: Filter = { kind: 'condition', path, test: { op: 'in', values: [value] } }
        return both({ kind: 'all', of: [within, not] }, filter)
      })
      const lists = await this.#findBoosted(filters, count)
      const values = await this.#valuesAt(lists.flat(), path)
      for (const [at, group] of open.entries()) {
        const known = new Set(group.members.map(({ id }) => id))
        for (const each of lists[at]!) {
          const value = values.get(each.id)
          // A point with several values is in no group.
          if (value === undefined || keyOf(value) !== keyOf(group.value)) others.add(each.id)
          else if (!known.has(each.id)) group.members.push(each)
        }
        if (lists[at]!.length < count) group.isComplete = true
      }
      open = open.filter(isShort)
    }
  }

  /**
   * Returns how many points to search for next, after `count` in each of some groups: twice as many, or else a path where
   * most points have several values would take a search for every few of them.
   */
  #more(count: number, groups: number): number {
    const most = Math.floor(candidatesMax(this.#context.limits.maxLimit) / groups)
    return Math.max(count, Math.min(2 * count, most))
  }

  async #findBoosted(filters: readonly Filter[], size: number): Promise<Candidate[][]> {
    const lists = await this.#find(filters, size)
    if (this.#shape.boosts.length > 0) await this.#boost(lists.flat())
    for (const list of lists) list.sort(inOrder)
    return lists
  }

  /** Returns the value that each point has at a path, if it has exactly one. */
  async #valuesAt(candidates: readonly Candidate[], path: string): Promise<ReadonlyMap<string, Scalar>> {
    const values = new Map<string, Scalar>()
    await this.#read(
      candidates.map(({ id }) => id),
      { ...nothing, attributes: [path] },
      ({ id, payload }) => {
        const [value, ...more] = scalarsAt(payload?.attributes, path)
        if (value === undefined) return
        if (more.every((each) => keyOf(each) === keyOf(value))) values.set(id, value)
      },
    )
    return values
  }

  /** Answers with the first of the candidates that are still stored, and still match. */
  async #page(candidates: readonly Candidate[], groups?: readonly Group[]): Promise<SearchResults> {
    const startMs = performance.now()
    const { limit, filter, include, words, profile: _, ...query } = this.#query
    const wanted = groups === undefined ? limit : candidates.length
    const read = new Map<string, HitDetails>()
    const shown: Candidate[] = []
    for (let at = 0; shown.length < wanted && at < candidates.length; ) {
      const next = candidates.slice(at, at + wanted - shown.length)
      at += next.length
      const { room } = this.#call
      const details = { ...nothing, ...include, distance: false, scores: undefined, highlight: undefined }
      const keep = (point: { readonly id: string } & HitDetails): void => {
        room?.add(detailBytes(point))
        read.set(point.id, point)
      }
      await this.#read(
        next.map(({ id }) => id),
        details,
        keep,
        filter,
      )
      shown.push(...next.filter(({ id }) => read.has(id)))
    }
    const highlights = new Map<string, HitDetails['highlight']>()
    if (include?.highlight === true && shown.length > 0) {
      const { ids, details } = await this.#database.search(
        [
          {
            ...query,
            vector: noVector,
            metric: 'Cosine',
            maxDistance: undefined,
            words: { ...words!, balance: 0 },
            limit: shown.length,
            filter: onlyIds(shown.map(({ id }) => id)),
            include: { ...nothing, highlight: true },
          },
        ],
        this.#call,
      )
      for (const [rank, id] of ids.strings()[0]!.entries()) highlights.set(id, details[0]?.[rank]?.highlight)
    }
    const detailsOf = ({ id, score, words, rerank }: Candidate): HitDetails => {
      const { payload, vector, version } = read.get(id)!
      return {
        payload,
        vector,
        version,
        ...(include?.scores === true && { score, words, rerank }),
        ...(include?.highlight === true && { highlight: highlights.get(id) ?? [] }),
      }
    }
    const us = Math.round((performance.now() - startMs) * 1000)
    const steps = [...this.#steps, { step: 'page', points: shown.length, us }]
    const isShown = new Set(shown)
    const counted = groups?.map(
      ({ value, members }): HitGroup => ({
        value,
        count: members.filter((each) => isShown.has(each)).length,
      }),
    )
    return {
      ids: IdLists.of([shown.map(({ id }) => id)]),
      distances: Float64Array.from(shown, ({ distance }) => distance),
      sequences: Float64Array.from(shown, ({ sequence }) => sequence),
      details: [include && shown.map(detailsOf)],
      profiles: [this.#profile && { ...this.#profile, steps }],
      plans: [this.#plan],
      ...(counted !== undefined && { groups: [counted.filter(({ count }) => count > 0)] }),
    }
  }

  /**
   * Reads points; those that are not stored any more are left out.
   *
   * @param filter of points that shall be read
   */
  async #read(
    ids: readonly string[],
    include: Include,
    use: (point: { readonly id: string } & HitDetails) => void,
    filter?: Filter,
  ): Promise<void> {
    const { signal, room } = this.#call
    for (let start = 0; start < ids.length; start += idsPerRead) {
      const some = onlyIds(ids.slice(start, start + idsPerRead))
      const wanted = both(some, filter)
      let cursor: string | undefined
      do {
        const page = await this.#database.list(
          { filter: wanted, limit: idsPerRead, include, cursor },
          { signal, room },
        )
        for (const point of page.points) use(point)
        // Only what is kept counts.
        room?.add(-page.points.reduce((sum, point) => sum + detailBytes(point), 0))
        cursor = page.nextCursor
      } while (cursor !== undefined)
    }
  }
}

function inOrder(a: Candidate, b: Candidate): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  // Without a vector, there is no distance.
  return b.score - a.score || a.distance - b.distance || a.sequence - b.sequence
}

function* meanOf(vectors: readonly Float32Array[], isOfUnitLength: boolean): Generator<void, Float64Array> {
  const mean = new Float64Array(vectors[0]!.length)
  for (const vector of vectors) {
    const length = isOfUnitLength ? Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0)) || 1 : 1
    for (let at = 0; at < mean.length; at += 1) mean[at]! += vector[at]! / length / vectors.length
    yield
  }
  return mean
}

/** Returns the latest date at a path; minus infinity if there is none. */
function latestAt(attributes: Parameters<typeof scalarsAt>[0], path: string): number {
  return scalarsAt(attributes, path).reduce(
    (latest: number, value) => (value instanceof DateTime ? Math.max(latest, value.us) : latest),
    Number.NEGATIVE_INFINITY,
  )
}

/** Different for different values: a date is not the number of its microseconds. */
function keyOf(value: Scalar): string {
  if (value instanceof GeoPoint) return `place ${value.lat} ${value.lon}`
  return value instanceof DateTime ? `date ${value.us}` : `${typeof value} ${value}`
}

const nothing: Include = { distance: false, payload: false, vector: false, version: false }
const scoresOnly: Include = { ...nothing, scores: true }

/** The best that boosts look at. */
const boostedMax = 1000
/** The best that groups look at first. */
const groupedMin = 100
/** The best that diversity orders: with the distances between all of them, tens of milliseconds of work. */
const diversePool = 200
/** The best of a group that boosts look at. */
const boostedPerGroup = 100
const groupsPerSearch = 64
const idsPerRead = 1000
/** Characters: more than rerankers read. */
const documentMax = 4096
