import { contentPath } from '../base/collection.ts'
import { cancellation, type DatabaseError, invalid } from '../base/errors.ts'
import { onlyIds } from '../base/filter-builder.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { distanceMetrics, type Metric, type SearchQuery } from '../base/point.ts'
import {
  type EvaluatedPoints,
  type Evaluation,
  type Grades,
  intervalOf,
  kMax,
  type MeasuredSetting,
  meanOf,
  type Relevance,
  relevanceOf,
  type SearchSetting,
  steadyPeakOf,
} from '../base/relevance.ts'
import { inTurns, Turn } from '../base/turns.ts'
import { asksForShape, checkShape, type ShapedQuery } from './answer-shape.ts'
import { type ApiContext, type Call, collectionNameOf, httpFields } from './call.ts'
import { checkQuery, type SearchInput } from './search-points.ts'
import { searchShaped } from './shaped-search.ts'
import { embedQueries, type QueryText, textOfQuery } from './texts.ts'
import {
  checkBetween,
  checkEf,
  checkEnum,
  checkId,
  checkWhole,
  type IntegerInput,
  shown,
} from './validation.ts'

/** A query, and the points that answer it. */
export interface JudgementInput extends Pick<SearchInput, 'words' | 'vector' | 'text'> {
  /** The grade of points by id: 0 for one that is not relevant. */
  readonly relevant?: ReadonlyMap<string, number> | undefined
}

/** How all queries are searched for. */
type SharedInput = Pick<
  SearchInput,
  'similarity' | 'balance' | 'ef' | 'filter' | 'boost' | 'diversity' | 'rerank'
>

export interface EvaluatePointsInput extends SharedInput {
  readonly judgements?: readonly JudgementInput[] | undefined
  /** How many results of each query count. */
  readonly k?: IntegerInput | undefined
  /** What to vary. */
  readonly sweep?: readonly string[] | undefined
}

/**
 * Searches for each judged query, and measures how well the results agree with the judgements. A sweep tries other
 * values of one setting after another, and keeps the best of each.
 *
 * Fails with `invalid_argument`, naming the first bad judgement; then nothing is searched.
 */
export async function evaluatePoints(
  context: ApiContext,
  input: EvaluatePointsInput,
  call: Call,
): Promise<EvaluatedPoints> {
  const judged = await judgedQueries(context, input, call)
  const sweep = checkSweep(input.sweep ?? [], judged)
  const hasWords = judged.some(({ query }) => query.words !== undefined)
  const declared = hasWords ? weightsOf(context, call) : undefined
  const paths = sweep.includes('paths') ? pathsToSweep(declared) : undefined
  const first = judged.find(({ query }) => isNear(query))?.query
  const given: SearchSetting = {
    ...(judged.some(isHybrid) && { balance: input.balance ?? balanceDefault }),
    ...(first !== undefined && { ef: first.ef }),
    ...(declared !== undefined && { paths: declared }),
  }
  const trials = new Trials(context, judged, given, call)
  const queries = await trials.measure(given)
  const missing = await missingPoints(context, judged, call)
  const evaluated = { ...given, ...(await evaluationOf(queries)), missing }
  if (sweep.length === 0) return { ...evaluated, curve: [] }
  if (sweep.includes('balance')) await trials.sweepBalance()
  if (sweep.includes('ef')) await trials.sweepEf()
  if (paths !== undefined) await trials.sweepPaths(paths)
  const best = { ...trials.best.setting, ...(await evaluationOf(trials.best.queries)) }
  return { ...evaluated, curve: trials.curve, best }
}

type Measured = Omit<Evaluation, keyof SearchSetting>

async function evaluationOf(queries: readonly Relevance[]): Promise<Measured> {
  return { ...meanOf(queries), ...(await inTurns(intervalOf(queries))), queries }
}

interface Judged {
  readonly query: ShapedQuery
  readonly grades: Grades
}

function isNear({ vector }: Pick<SearchQuery, 'vector'>): boolean {
  return vector.length > 0
}

function isHybrid({ query }: Judged): boolean {
  return query.words !== undefined && isNear(query)
}

/** Checks the judgements, and embeds their texts. */
async function judgedQueries(
  context: ApiContext,
  input: EvaluatePointsInput,
  { signal }: Call,
): Promise<Judged[]> {
  const { database, limits, embeddings, reranker } = context
  const { dimension } = database
  const { judgements = [], k = kDefault, similarity, balance, ef, filter, boost, diversity, rerank } = input
  const shape = { boost, diversity, rerank }
  const limit = checkWhole(k, 'k', { min: 1, max: Math.min(kMax, limits.maxLimit) })
  if (balance !== undefined) checkBetween(balance, 'balance', 0, 1)
  if (ef !== undefined) checkEf(ef, 'ef')
  if (judgements.length === 0) throw invalid(`judgements is missing or empty, it needs 1 to ${judgementsMax}`)
  if (judgements.length > judgementsMax) throw tooManyJudgements()
  checkSharedShape(input, limit, context)
  const texts: QueryText[] = []
  const judged: Judged[] = []
  const turn = new Turn()
  let metric: Metric | undefined
  // The fields of a judgement have the names of HTTP over both transports.
  for (const [at, { words, vector, text, relevant }] of judgements.entries()) {
    if (turn.isOver) await turn.next()
    const path = `judgements[${at}].`
    const embedded = textOfQuery({ vector, text }, embeddings, path, httpFields)
    if (embedded !== undefined) texts.push({ at, text: embedded, path: `${path}text` })
    const isHybridQuery = words !== undefined && (vector ?? text) !== undefined
    if ((vector ?? text) !== undefined)
      metric ??= checkEnum<Metric>(similarity, distanceMetrics, 'similarity')
    const own = { words, vector, text, similarity: metric, limit, ef, filter, ...shape }
    const asked = isHybridQuery ? { ...own, balance } : own
    if ((words ?? vector ?? text) === undefined) {
      throw invalid(`judgements[${at}] has no query: it needs words, a vector or a text`)
    }
    const query = checkQuery(asked, { dimension, limits, reranker }, path, httpFields)
    judged.push({ query, grades: checkGrades(relevant, `${path}relevant`) })
  }
  await embedQueries(context, texts, signal, (at, vector) => {
    judged[at] = { ...judged[at]!, query: { ...judged[at]!.query, vector } }
  })
  return judged
}

/** Names the fields as they are in the request: all judgements share them. */
function checkSharedShape(
  { boost, diversity, rerank }: SharedInput,
  limit: number,
  { limits, reranker }: ApiContext,
): void {
  const shape = { boost, diversity, rerank }
  if (!asksForShape(shape)) return
  // Whether a query can be reranked depends on its judgement.
  const facts = { metric: 'Cosine', hasTarget: true, hasCursor: false, text: '' } as const
  checkShape(shape, '', { ...facts, limit, maxLimit: limits.maxLimit, canRerank: reranker !== undefined })
}

const kDefault = 10

/** Each is searched for once a setting. */
export const judgementsMax = 1000
export const gradesMax = 1000

export function tooManyJudgements(): DatabaseError {
  return invalid(`judgements has more than ${judgementsMax} judgements`)
}

/** @param path of the grades in the request */
export function tooManyGrades(path: string): DatabaseError {
  return invalid(`${path} has more than ${gradesMax} points`)
}

function checkGrades(given: ReadonlyMap<string, number> | undefined, path: string): Grades {
  if (given === undefined) throw invalid(`${path} is missing`)
  if (given.size > gradesMax) throw tooManyGrades(path)
  const grades = new Map<string, number>()
  for (const [id, grade] of given) {
    const checked = checkBetween(grade, `${path}.${checkId(id, `${path}.${id.slice(0, 64)}`)}`, 0, gradeMax)
    if (checked > 0) grades.set(id.toLowerCase(), checked)
  }
  if (grades.size === 0) throw invalid(`${path} has no point with a grade greater than 0`)
  return grades
}

const gradeMax = 1000

const sweepable = ['balance', 'ef', 'paths'] as const
type Sweepable = (typeof sweepable)[number]

function checkSweep(names: readonly string[], judged: readonly Judged[]): readonly Sweepable[] {
  return names.map((name, index) => {
    const path = `sweep[${index}]`
    const known = sweepable.find((each) => each === name)
    if (known === undefined)
      throw invalid(`${path} is ${shown(name)}, it must be one of ${sweepable.join(', ')}`)
    const needs = {
      balance: ['words and a vector or a text', isHybrid],
      ef: ['a vector or a text', ({ query }: Judged) => isNear(query)],
      paths: ['words', ({ query }: Judged) => query.words !== undefined],
    } as const
    const [what, has] = needs[known]
    if (!judged.some(has)) throw invalid(`${path} is ${known}, it needs a judgement with ${what}`)
    return known
  })
}

type Paths = NonNullable<SearchSetting['paths']>

function weightsOf(context: ApiContext, call: Call): Paths | undefined {
  const { words } = context.collections.get(collectionNameOf(context, call))
  return words && Object.fromEntries(words.paths.map(({ path, weight }) => [path, weight]))
}

function pathsToSweep(declared: Paths | undefined): readonly string[] {
  const paths = Object.keys(declared ?? {})
  if (paths.length >= 2) {
    // Only the ratios of weights count: one stays as it is.
    const fixed = paths.includes(contentPath) ? contentPath : paths[0]
    return paths.filter((path) => path !== fixed)
  }
  throw invalid(`sweep has paths, it needs a collection with words at two paths or more, not ${paths.length}`)
}

/** Counts the points of the judgements that are not stored. */
async function missingPoints(
  { database }: ApiContext,
  judged: readonly Judged[],
  { signal }: Call,
): Promise<number> {
  const all = [...new Set(judged.flatMap(({ grades }) => [...grades.keys()]))]
  let missing = all.length
  for (let from = 0; from < all.length; from += idsPerCount) {
    const part = all.slice(from, from + idsPerCount)
    missing -= await database.count(onlyIds(part), signal)
  }
  return missing
}

const idsPerCount = 10_000

/** What a sweep has tried. */
interface Trial {
  readonly setting: SearchSetting
  readonly queries: readonly Relevance[]
  readonly mean: Relevance
}

/** Measures settings one after another. Each sweep begins with the best setting of the one before. */
class Trials {
  readonly curve: MeasuredSetting[] = []
  readonly #context: ApiContext
  readonly #judged: readonly Judged[]
  readonly #declared: Paths | undefined
  readonly #call: Call
  #best: Trial | undefined
  readonly #given: SearchSetting
  /** By judgement, while only the balance changes. */
  #shared: readonly object[] | undefined

  constructor(context: ApiContext, judged: readonly Judged[], given: SearchSetting, call: Call) {
    this.#context = context
    this.#judged = judged
    this.#given = given
    this.#declared = given.paths
    this.#call = call
  }

  get best(): Trial {
    return this.#best!
  }

  /** Searches for every query, and measures the results. The first setting is the best as long as there is no other. */
  async measure(setting: SearchSetting): Promise<readonly Relevance[]> {
    const { signal } = this.#call
    const turn = new Turn()
    const queries: Relevance[] = []
    for (const [index, { query, grades }] of this.#judged.entries()) {
      if (turn.isOver) await turn.next()
      if (signal?.aborted) throw cancellation(signal)
      const { ids } = await this.#search(this.#with(query, setting, this.#shared?.[index]))
      queries.push(relevanceOf(ids.strings()[0]!, grades, query.limit))
    }
    this.#best ??= { setting, queries, mean: meanOf(queries) }
    return queries
  }

  async #search(query: ShapedQuery): Promise<Pick<SearchResults, 'ids'>> {
    if (query.shape !== undefined) return await searchShaped(this.#context, query, this.#call)
    return await this.#context.database.search([query], this.#call)
  }

  #with(query: ShapedQuery, { balance = 0, ef, paths }: SearchSetting, shared?: object): ShapedQuery {
    const isDeclared = paths === undefined || paths === this.#declared
    const { words } = query
    // A shaped answer takes several searches.
    const isPlain = query.shape === undefined
    return {
      ...query,
      ...(ef !== undefined && { ef: Math.max(ef, query.limit) }),
      ...(words && {
        words: {
          ...words,
          balance,
          shared: isPlain ? shared : undefined,
          ...(isDeclared ? {} : { weights: Object.values(paths) }),
        },
      }),
    }
  }

  async #try(setting: SearchSetting): Promise<Trial> {
    const queries = await this.measure(setting)
    const mean = meanOf(queries)
    this.curve.push({ ...setting, ...mean })
    return { setting, queries, mean }
  }

  /** Takes another setting only if it is better. */
  #choose(trial: Trial): void {
    if (trial.mean.ndcg > this.best.mean.ndcg) this.#best = trial
  }

  async sweepBalance(): Promise<void> {
    const { setting } = this.best
    const trials: Trial[] = []
    this.#shared = this.#judged.map(() => ({}))
    for (let step = 0; step <= balanceSteps; step += 1) {
      trials.push(await this.#try({ ...setting, balance: step / balanceSteps }))
    }
    const steps = trials.map(({ queries }) => queries.map(({ ndcg }) => ndcg))
    this.#shared = undefined
    this.#choose(trials[steadyPeakOf(steps, balanceDefault * balanceSteps)]!)
  }

  /** Chooses the least ef with which hardly anything is lost, because a greater one takes longer. */
  async sweepEf(): Promise<void> {
    const { setting } = this.best
    const { limit } = this.#judged[0]!.query
    const given = this.#given.ef!
    const efs = new Set(efFactors.map((factor) => Math.max(limit, Math.round(factor * given))))
    const trials: Trial[] = []
    for (const ef of efs) trials.push(await this.#try({ ...setting, ef }))
    const greatest = Math.max(...trials.map(({ mean }) => mean.ndcg))
    this.#best = trials.find(({ mean }) => mean.ndcg >= greatest - efLossMax)!
  }

  /** Chooses the weight of one path after another. */
  async sweepPaths(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const { setting } = this.best
      const paths = setting.paths!
      for (const factor of weightFactors) {
        const trial = await this.#try({
          ...setting,
          paths: { ...paths, [name]: factor * paths[name]! },
        })
        this.#choose(trial)
      }
    }
  }
}

const balanceDefault = 0.5
const balanceSteps = 20
const efFactors = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
const efLossMax = 0.001
const weightFactors = [1 / 4, 1 / 2, 2, 4]
