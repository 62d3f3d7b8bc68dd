import {
  type BoostInput,
  boostsMax,
  examplesMax,
  type GroupByInput,
  type RecentInput,
  tooManyBoosts,
  tooManyExamples,
} from '../../api/answer-shape.ts'
import type {
  ChangeByFilterInput,
  PatchInput,
  PatchPointInput,
  PreconditionInput,
  PutPointInput,
} from '../../api/change-point.ts'
import {
  aliasesMax,
  type PutCollectionInput,
  type QuotasInput,
  type SetAliasesInput,
  tooManyAliases,
  tooManyWordPaths,
  type WordsInput,
} from '../../api/collections.ts'
import {
  type EvaluatePointsInput,
  gradesMax,
  type JudgementInput,
  judgementsMax,
  tooManyGrades,
  tooManyJudgements,
} from '../../api/evaluate-points.ts'
import type { InsertVectorsBatchInput } from '../../api/insert-points.ts'
import type { CreateKeyInput } from '../../api/inspect-service.ts'
import type { CountPointsInput, FacetPointsInput, ListPointsInput } from '../../api/read-points.ts'
import type { SearchInput, SearchPointsBatchInput, StatisticsInput } from '../../api/search-points.ts'
import { type PayloadInput, type PointInput, pathsMax, tooManyPaths } from '../../api/validation.ts'
import type { KeyQuotas } from '../../base/api-key.ts'
import { wordBounds } from '../../base/collection.ts'
import { type DatabaseError, invalid } from '../../base/errors.ts'
import { type AskedInclude, dimensionMax, includeNames } from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import { readAttributes, readDateTime, readExactNumber, readSet } from '../../messages/json-attributes.ts'
import { readFilter } from '../../messages/json-filter.ts'
import {
  expectKind,
  membersAt,
  readBoolean,
  readNumber,
  readString,
  readText,
} from '../../messages/json-reader.ts'
import { BatchBody, type FieldNotes, type FieldReaders, listOf, ObjectReader } from './json-objects.ts'
import { JsonScanner } from './json-scanner.ts'

/**
 * The bodies of requests: their fields, and how each is read. Checks the types of JSON values, with the path of the fault
 * in the message; the api checks the values. Unknown fields are skipped and recorded. The last occurrence of a repeated
 * field counts, but the list of a batch must not be repeated.
 */

const filter = { steps: readFilter }

/** Its fields must be known: a misspelled one would be missing from the answer. */
const include = new ObjectReader<AskedInclude>(
  Object.fromEntries(
    includeNames.map((name) => [name, name === 'attributes' ? readSelected : readBoolean]),
  ) as FieldReaders<AskedInclude>,
  'include',
)

/** Its fields must be known: a misspelled condition would not be checked. */
const when = new ObjectReader<PreconditionInput>(
  { version: readExactNumber, filter, absent: readBoolean },
  'when',
)

const payload = new ObjectReader<PayloadInput>({
  contentType: readString,
  content: readText,
  attributes: readAttributes,
  expiresAtUs: (json, at) => readExpiry(json, at) ?? undefined,
  ttlSeconds: readNumber,
})

const point = new ObjectReader<PointInput>({
  vector: readVector,
  text: readText,
  payload,
  id: readString,
  onConflict: readString,
})

const boosts = listOf(
  new ObjectReader<BoostInput>(
    {
      weight: readNumber,
      filter,
      recent: new ObjectReader<RecentInput>({ path: readString, halfLife: readString }, 'recent'),
    },
    'boost',
  ),
  boostsMax,
  tooManyBoosts,
)

const query = new ObjectReader<SearchInput>({
  vector: readVector,
  text: readText,
  id: readString,
  similarity: readString,
  limit: readNumber,
  ef: readNumber,
  filter,
  exact: readBoolean,
  maxDistance: readNumber,
  include,
  profile: readBoolean,
  words: readQueryWords,
  balance: readNumber,
  cursor: readString,
  statistics: new ObjectReader<StatisticsInput>({ filter }, 'statistics'),
  boost: boosts,
  like: readExamples,
  unlike: readExamples,
  diversity: readNumber,
  groupBy: new ObjectReader<GroupByInput>({ path: readString, size: readNumber }, 'group_by'),
  rerank: readNumber,
  onError: readString,
})

function readQueryWords(json: JsonScanner, at: string): string | boolean {
  return json.peek() === 'boolean' ? json.boolean() : readText(json, at)
}

/** A patch as JSON has it: paths that `set` maps to null are removed. */
type WrittenPatch = Omit<PatchInput, 'set'> & { readonly set?: ReturnType<typeof readSet> }

const patch = {
  set: readSet,
  unset: readPaths,
  content: readText,
  contentType: readString,
  expiresAtUs: readExpiry,
  ttlSeconds: readNumber,
  vector: readVector,
  text: readText,
}

function patchOf({ set, unset, ...rest }: WrittenPatch): PatchInput {
  const removed = [...(unset ?? []), ...(set?.unset ?? [])]
  const isRemoving = unset !== undefined || removed.length > 0
  return { ...rest, ...(set && { set: set.set }), ...(isRemoving ? { unset: removed } : {}) }
}

const selection = { filter, limit: readNumber, dryRun: readBoolean, everything: readBoolean }

/** How the body of a request is read; returns a promise if that takes long. */
type Decode<Input> = (body: Buffer, notes: FieldNotes) => Input | Promise<Input>

/** @param strictName the request's name in messages, if other fields are refused and not skipped */
function bodyOf<Input extends object>(
  fields: FieldReaders<NoInfer<Input>>,
  strictName?: string,
): Decode<Input> {
  return bodyWith(new ObjectReader<Input>(fields, strictName), same)
}

function bodyWith<Fields extends object, Input>(
  fields: ObjectReader<Fields>,
  convert: (fields: Fields) => Input,
): Decode<Input> {
  return (body, notes) => inTurns(wholeOf(body, notes, fields, convert))
}

function* wholeOf<Fields extends object, Input>(
  body: Buffer,
  notes: FieldNotes,
  fields: ObjectReader<Fields>,
  convert: (fields: Fields) => Input,
): Generator<undefined, Input, void> {
  const json = new JsonScanner(body)
  const read = yield* fields.steps(json, '', notes)
  json.end()
  return convert(read)
}

function same<Input>(input: Input): Input {
  return input
}

export const decodePoint: Decode<PointInput> = bodyWith(point, same)

export const decodeQuery: Decode<SearchInput> = bodyWith(query, same)

export const decodePut: Decode<PutPointInput> = bodyOf({ vector: readVector, text: readText, payload, when })

export const decodePatch: Decode<PatchPointInput> = bodyWith(
  new ObjectReader<WrittenPatch & Pick<PatchPointInput, 'when'>>({ when, ...patch }),
  ({ when, ...written }) => ({ patch: patchOf(written), when }),
)

export const decodeUpdate: Decode<ChangeByFilterInput> = bodyWith(
  new ObjectReader<WrittenPatch & ChangeByFilterInput>({ ...selection, ...patch }),
  ({ filter, limit, dryRun, everything, ...written }) => ({
    filter,
    limit,
    dryRun,
    everything,
    patch: patchOf(written),
  }),
)

export const decodeDelete: Decode<ChangeByFilterInput> = bodyOf(selection)

export const decodeList: Decode<ListPointsInput> = bodyOf({
  filter,
  limit: readNumber,
  cursor: readString,
  include,
})

export const decodeCount: Decode<CountPointsInput> = bodyOf({ filter })

export const decodeFacets: Decode<FacetPointsInput> = bodyOf({ filter, paths: readPaths, limit: readNumber })

/** Its fields must be known: without a misspelled one, it would be another query. */
const judgement = new ObjectReader<JudgementInput>(
  {
    words: readQueryWords,
    vector: readVector,
    text: readText,
    relevant: (json, at) => readNumbers(json, at, gradesMax, () => tooManyGrades(at)),
  },
  'a judgement',
)

export const decodeEvaluation: Decode<EvaluatePointsInput> = bodyOf({
  judgements: listOf(judgement, judgementsMax, tooManyJudgements, 'an array of judgements'),
  k: readNumber,
  sweep: readPaths,
  similarity: readString,
  balance: readNumber,
  ef: readNumber,
  filter,
  boost: boosts,
  diversity: readNumber,
  rerank: readNumber,
})

const hnsw = new ObjectReader<NonNullable<PutCollectionInput['hnsw']>>({
  m: readNumber,
  efConstruction: readNumber,
})

/** Its fields must be known: texts of a misspelled path would be missing. */
const wordFields = new ObjectReader<WordsInput>(
  {
    language: readString,
    paths: (json, at) => readNumbers(json, at, wordBounds.paths, tooManyWordPaths),
    k1: readNumber,
    b: readNumber,
  },
  'words',
)

const words = {
  *steps(json: JsonScanner, at: string, notes: FieldNotes): Generator<undefined, WordsInput | null, void> {
    if (json.peek() !== 'null') return yield* wordFields.steps(json, at, notes)
    json.skip()
    return null
  },
}

/** Its fields must be known: a misspelled quota would bound nothing. */
const quotas = new ObjectReader<QuotasInput>(
  { points: readNumber, bytes: readNumber, requestsPerSecond: readNumber, searchesInFlight: readNumber },
  'quotas',
)

const decodeSettings: Decode<PutCollectionInput> = bodyOf({ dimension: readNumber, hnsw, words, quotas })

/** Without a body, a collection has the default settings of the service. */
export const decodeCollection: Decode<PutCollectionInput> = (body, notes) =>
  body.length === 0 ? {} : decodeSettings(body, notes)

/** Its fields must be known: without a misspelled restriction, a key could do more. */
export const decodeKey: Decode<CreateKeyInput> = bodyOf(
  {
    name: readString,
    role: readString,
    collections: readPaths,
    filter,
    expiresAtUs: (json, at) => readExpiry(json, at) ?? undefined,
    quotas: new ObjectReader<KeyQuotas>(
      { points: readNumber, requestsPerSecond: readNumber, searchesInFlight: readNumber },
      'quotas',
    ),
  },
  'a key',
)

/** Stops reading at the first alias beyond the limit. */
export const decodeAliases: Decode<SetAliasesInput> = bodyOf({
  set(json, at) {
    const set = new Map<string, string>()
    for (const alias of membersAt(json, `${at}.`)) {
      set.set(alias, readString(json, `${at}.${alias}`))
      if (set.size > aliasesMax) throw tooManyAliases()
    }
    return set
  },
  remove: (json, at) => readTexts(json, at, aliasesMax, tooManyAliases),
})

export function decodePoints(body: Buffer, notes: FieldNotes): InsertVectorsBatchInput {
  const batch = new BatchBody(body, notes)
  return { vectors: batch.items('vectors', point, { onError: true }), onError: batch }
}

export function decodeQueries(body: Buffer, notes: FieldNotes): SearchPointsBatchInput {
  return { queries: new BatchBody(body, notes).items('queries', query) }
}

/** Reads an array of numbers that float32 can hold. */
function readVector(json: JsonScanner, path: string): Float32Array {
  expectKind(json, 'array', path, 'an array of numbers')
  const plain = json.numbers(dimensionMax, path)
  if (plain !== undefined) return plain
  const components: number[] = []
  for (const index of json.elements()) {
    if (index === dimensionMax) throw invalid(`${path} has more than ${dimensionMax} dimensions`)
    // Making the path takes longer than reading the number.
    const component = json.peek() === 'number' ? json.number() : readNumber(json, `${path}[${index}]`)
    if (!Number.isFinite(Math.fround(component))) {
      throw invalid(`${path}[${index}] is ${component}, beyond what float32 can hold (about 3.4e38)`)
    }
    components.push(component)
  }
  return Float32Array.from(components)
}

/** Reads an object of numbers by name; stops reading at the first beyond the limit. */
function readNumbers(
  json: JsonScanner,
  at: string,
  countMax: number,
  tooMany: () => DatabaseError,
): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>()
  for (const name of membersAt(json, `${at}.`)) {
    numbers.set(name, readNumber(json, `${at}.${name}`))
    if (numbers.size > countMax) throw tooMany()
  }
  return numbers
}

/** Reads an expiry in microseconds since 1970; null if the point does not expire. */
function readExpiry(json: JsonScanner, at: string): number | null {
  if (json.peek() !== 'null') return readDateTime(json, at).us
  json.skip()
  return null
}

/** Reads an array of paths; stops reading at the first path beyond the limit. */
function readPaths(json: JsonScanner, at: string): readonly string[] {
  return readTexts(json, at, pathsMax, () => tooManyPaths(at))
}

function readExamples(json: JsonScanner, at: string): readonly string[] {
  return readTexts(json, at, examplesMax, () => tooManyExamples(at))
}

function readTexts(
  json: JsonScanner,
  at: string,
  countMax: number,
  tooMany: () => DatabaseError,
): readonly string[] {
  expectKind(json, 'array', at, 'an array of strings')
  const texts: string[] = []
  for (const index of json.elements()) {
    if (index === countMax) throw tooMany()
    texts.push(readString(json, `${at}[${index}]`))
  }
  return texts
}

function readSelected(json: JsonScanner, at: string): readonly string[] | boolean {
  if (json.peek() === 'boolean') return json.boolean()
  expectKind(json, 'array', at, 'an array of paths, or true for all attributes')
  return readPaths(json, at)
}
