import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { dateTimeWords, jsonNumbers, parseDateTime, plainToJson } from '../base/attributes.ts'
import { type ContentType, contentTypes, type Metric } from '../base/point.ts'
import type {
  Boost,
  Changed,
  Hit,
  Patch,
  PointsClient,
  Precondition,
  Query,
  Selection,
} from '../client/client.ts'
import { fieldsJson } from '../client/http-call.ts'
import {
  type AttributeInput,
  type AttributesInput,
  attributeJson,
  type DateValue,
  type Filter,
} from '../client/values.ts'
import { parseWithDigits, roundedNumberIn } from '../import/values.ts'
import { checkReadable, type Environment, UsageError, vectorIn, whole, wholeOrNone } from './arguments.ts'
import {
  addCollectionOption,
  addConnectionOptions,
  type ConnectionOptions,
  collectionOf,
  withClient,
} from './connection.ts'
import { type ReaderOptions, readItems } from './readers.ts'

/** The commands on points. They print points and values in the JSON of the HTTP interface. */

interface GetOptions extends ConnectionOptions {
  readonly withVersion?: boolean
}

interface FilterOptions extends ConnectionOptions {
  readonly filter?: string
}

interface ChangeOptions extends ConnectionOptions {
  readonly set?: string
  readonly unset?: readonly string[]
  readonly expiresAt?: string
}

interface SelectionOptions extends FilterOptions {
  readonly limit?: number
  readonly dryRun?: boolean
  readonly everything?: boolean
}

interface PutOptions extends ConnectionOptions {
  readonly vector?: string
  readonly text?: string
  readonly content: string
  readonly contentType: ContentType
  readonly attributes?: string
  readonly expiresAt?: string
  readonly ifVersion?: number
  readonly ifAbsent?: boolean
}

interface SetOptions extends ChangeOptions {
  readonly content?: string
  readonly text?: string
  readonly ifVersion?: number
}

interface ListOptions extends FilterOptions {
  readonly limit?: number
  readonly vectors?: boolean
}

type CountOptions = FilterOptions

interface FacetsOptions extends FilterOptions {
  readonly limit: number
  readonly json?: boolean
}

type UpdateOptions = ChangeOptions & SelectionOptions

type DeleteOptions = SelectionOptions

async function getPoint(id: string, options: GetOptions, environment: Environment): Promise<void> {
  await withClient(options, environment, async (client) => {
    console.log(lineOf(await client.get(id, { version: options.withVersion })))
  })
}

async function putPoint(id: string, options: PutOptions, environment: Environment): Promise<void> {
  const { content, contentType, attributes, expiresAt, ifVersion, ifAbsent = false } = options
  if (ifVersion !== undefined && ifAbsent)
    throw new UsageError('--if-version and --if-absent exclude each other')
  const payload = {
    contentType,
    content,
    attributes: attributes === undefined ? undefined : attributesIn(attributes, '--attributes'),
    expiresAt: dateIn(expiresAt) ?? undefined,
  }
  const when: Precondition | undefined = ifAbsent ? { absent: true } : versionCondition(ifVersion)
  const vector = options.vector === undefined ? undefined : vectorIn(options.vector, '--vector')
  await withClient(options, environment, async (client) => {
    const { version, created } = await client.put(id, { vector, text: options.text, payload }, { when })
    console.log(`${created ? 'created' : 'replaced'}, version ${version}`)
  })
}

async function setPoint(id: string, options: SetOptions, environment: Environment): Promise<void> {
  const { content, text, ifVersion } = options
  const patch = { ...changeIn(options), content, text }
  await withClient(options, environment, async (client) => {
    const { version } = await client.patch(id, patch, { when: versionCondition(ifVersion) })
    console.log(`version ${version}`)
  })
}

async function listPoints(options: ListOptions, environment: Environment): Promise<void> {
  const { limit = Number.POSITIVE_INFINITY, vectors = false } = options
  const filter = filterIn(options)
  await withClient(options, environment, async (client) => {
    let printed = 0
    const include = { payload: true, vector: vectors, version: true }
    const query = { filter, include, limit: Math.min(limit, pointsPerPage) }
    for await (const point of client.listAll(query)) {
      console.log(lineOf(point))
      printed += 1
      if (printed >= limit) return
    }
  })
}

async function countPoints(options: CountOptions, environment: Environment): Promise<void> {
  const filter = filterIn(options)
  await withClient(options, environment, async (client) => console.log(await client.count(filter)))
}

async function countFacets(
  paths: readonly string[],
  options: FacetsOptions,
  environment: Environment,
): Promise<void> {
  const filter = filterIn(options)
  await withClient(options, environment, async (client) => {
    const query = { filter, paths, limit: options.limit }
    const facets = await client.facets(query)
    if (options.json) return console.log(plainToJson(attributeJson(facets as unknown as AttributeInput)))
    for (const [path, counts] of Object.entries(facets)) {
      console.log(path)
      for (const { value, count } of counts) {
        console.log(`${String(count).padStart(10)}  ${plainToJson(attributeJson(value))}`)
      }
    }
  })
}

async function updatePoints(options: UpdateOptions, environment: Environment): Promise<void> {
  const selection = selectionIn(options)
  const change = changeIn(options)
  await changeMatching(options, environment, (client, limit) =>
    client.updateMatching({ ...selection, ...change, limit }),
  )
}

async function deletePoints(
  id: string | undefined,
  options: DeleteOptions,
  environment: Environment,
): Promise<void> {
  if ((id === undefined) === (options.filter === undefined)) {
    throw new UsageError('give the id of a point, or --filter')
  }
  if (id !== undefined) {
    const { dryRun, everything, limit } = options
    if (dryRun || everything || limit !== undefined) {
      throw new UsageError('--dry-run, --everything and --limit need --filter: nothing was deleted')
    }
    await withClient(options, environment, (client) => client.delete(id))
    return
  }
  const selection = selectionIn(options)
  await changeMatching(options, environment, (client, limit) =>
    client.deleteMatching({ ...selection, limit }),
  )
}

/** Repeats a change until no points are left: the service changes a limited number at a time. */
async function changeMatching(
  options: SelectionOptions,
  environment: Environment,
  change: (client: PointsClient, limit: number | undefined) => Promise<Changed>,
): Promise<void> {
  await withClient(options, environment, async (client) => {
    let left = options.limit ?? Number.POSITIVE_INFINITY
    let total = 0
    let more = true
    while (more && left > 0) {
      const answer = await change(client, Number.isFinite(left) ? left : undefined)
      total += answer.changed
      left -= answer.changed
      more = answer.more && answer.changed > 0 && !options.dryRun
      // A dry run counts no more points than one request changes; the command would change them all.
      if (options.dryRun && answer.more) {
        total = Math.min(options.limit ?? Number.POSITIVE_INFINITY, await client.count(filterIn(options)))
      }
    }
    console.log(options.dryRun ? `${total} points match` : `${total} points changed`)
  })
}

function selectionIn(options: SelectionOptions): Selection {
  const filter = filterIn(options)
  if (filter === undefined)
    throw new UsageError('--filter is missing; {} with --everything selects all points')
  const { limit, dryRun, everything } = options
  return { filter, limit, dryRun, everything }
}

function changeIn({ set, unset, expiresAt }: ChangeOptions): Pick<Patch, 'set' | 'unset' | 'expiresAt'> {
  return {
    set: set === undefined ? undefined : attributesIn(set, '--set'),
    unset,
    expiresAt: dateIn(expiresAt),
  }
}

function versionCondition(version: number | undefined): Precondition | undefined {
  return version === undefined ? undefined : { version }
}

export function filterIn({ filter }: { readonly filter?: string }): Filter | undefined {
  return filter === undefined ? undefined : filterOfText(filter, '--filter')
}

function filterOfText(json: string, option: string): Filter {
  return objectIn(json, option) as Filter
}

/** Reads boosts, each an object in the JSON of HTTP. */
export function boostsIn(texts: readonly string[]): readonly Boost[] {
  return texts.map((text) => boostOf(objectIn(text, '--boost')))
}

/** Converts a boost in the JSON of HTTP; the client checks it. */
export function boostOf(boost: object): Boost {
  const { recent, ...others } = boost as { readonly recent?: Readonly<Record<string, unknown>> | null }
  if (recent === undefined || recent === null) return boost as Boost
  const { half_life: halfLife, ...rest } = recent
  return { ...others, recent: { ...rest, halfLife } } as unknown as Boost
}

function attributesIn(text: string, option: string): AttributesInput {
  return objectIn(text, option) as AttributesInput
}

function objectIn(text: string, option: string): object {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${option} is not JSON: ${(error as Error).message}`)
  }
  const rounded = roundedNumberIn(parsed, () => parseWithDigits(text), '')
  if (rounded !== undefined) throw new UsageError(`${option}: ${rounded}`)
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed
  throw new UsageError(`${option} is not a JSON object: ${text}`)
}

/** Parses a date; null for `never`. */
function dateIn(text: string | undefined): DateValue | null | undefined {
  if (text === undefined) return undefined
  if (text === 'never') return null
  const date = parseDateTime(text)
  if (date !== undefined) return date
  throw new UsageError(`--expires-at: ${JSON.stringify(text)} is not ${dateTimeWords}`)
}

/** Formats a point as the JSON of the HTTP interface. */
export function lineOf({ id, vector, payload, ...figures }: Hit): string {
  const vectorText = vector === undefined ? '' : `,"vector":${jsonNumbers(vector)}`
  const rest = plainToJson({ payload: payload && fieldsJson(payload), ...figures })
  return `{"id":${JSON.stringify(id)}${vectorText}${rest === '{}' ? '}' : `,${rest.slice(1)}`}`
}

const pointsPerPage = 1000

/** Adds the commands on points. */
export function addPoints(program: Command, environment: Environment): void {
  const add = (usage: string, description: string): Command =>
    addPointsOptions(program.command(usage).description(description))
  add('get <id>', 'print a point as JSON')
    .option('--with-version', 'also print its version')
    .action((id, options) => getPoint(id, options, environment))
  add('put <id>', 'store a point with this id')
    .addOption(new Option('--vector <numbers>', 'its vector, as a JSON array or as 1,2,3').conflicts('text'))
    .option('--text <text>', textHelp)
    .requiredOption('--content <text>', 'its content')
    .addOption(
      new Option('--content-type <type>', 'the kind of its content').choices(contentTypes).default('Text'),
    )
    .option('--attributes <json>', 'its attributes, as a JSON object')
    .option('--expires-at <time>', expiryHelp)
    .option('--if-version <n>', 'only if it has this version', wholeOrNone)
    .option('--if-absent', 'only if there is no point with this id')
    .action((id, options) => putPoint(id, options, environment))
  addChange(add('set <id>', 'change attributes, content or expiry of a point'))
    .option('--content <text>', 'its new content')
    .option('--text <text>', 'a text that the service embeds for its new vector')
    .option('--if-version <n>', 'only if it has this version', wholeOrNone)
    .action((id, options) => setPoint(id, options, environment))
  add('list', 'print points as JSON, in the order of insertion')
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'the most points (default: all)', whole)
    .option('--vectors', 'also print their vectors')
    .action((options) => listPoints(options, environment))
  add('count', 'print how many points match')
    .option('--filter <json>', filterHelp)
    .action((options) => countPoints(options, environment))
  add('facets <paths...>', 'print the most frequent values at these paths')
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'values per path', whole, 10)
    .option('--json', 'print JSON')
    .action((paths, options) => countFacets(paths, options, environment))
  addSelection(addChange(add('update', 'change all points that match'))).action((options) =>
    updatePoints(options, environment),
  )
  addSelection(add('delete [id]', 'delete a point, or all points that match')).action((id, options) =>
    deletePoints(id, options, environment),
  )
}

/** Adds the options that choose the service and the collection. */
export function addPointsOptions(command: Command): Command {
  return addCollectionOption(addConnectionOptions(command))
}

/** Adds the options of a change. */
function addChange(command: Command): Command {
  return command
    .option('--set <json>', 'attributes to set by path, like {"price": 5, "size.width": 3}')
    .option('--unset <path...>', 'attributes to remove')
    .option('--expires-at <time>', expiryHelp)
}

/** Adds the options that select the points to change. */
function addSelection(command: Command): Command {
  return command
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'the most points to change', whole)
    .option('--dry-run', 'only count them')
    .option('--everything', 'confirm a filter that matches every point, like {}')
}

export const filterHelp = 'a filter, like {"price": {"$lt": 10}}'
const textHelp =
  'a text that the service embeds in place of a vector (default: the content, if the service has embeddings)'
const expiryHelp = 'when it expires, like 2026-12-01T00:00:00Z; `never` for no expiry'

export interface QueryOptions
  extends ConnectionOptions,
    ReaderOptions,
    Pick<Query, 'ef' | 'exact' | 'maxDistance' | 'words' | 'balance' | 'like' | 'unlike' | 'diversity'>,
    Pick<Query, 'limit' | 'text' | 'rerank'> {
  readonly metric: Metric
  readonly vector?: string
  readonly vectorFile?: string
  readonly row?: number
  readonly statistics?: string
  /** true: the first page. */
  readonly cursor?: string | true
  readonly highlight?: boolean
  readonly boost?: readonly string[]
  readonly groupBy?: string
  readonly groupSize?: number
  readonly skipErrors?: boolean
  readonly filter?: string
  readonly profile?: boolean
  readonly json?: boolean
}

/** Searches, and prints rank, id and content of each result. */
export async function query(options: QueryOptions, environment: Environment): Promise<void> {
  checkSources(options)
  const filter = filterIn(options)
  const { statistics: population } = options
  const statistics =
    population === undefined ? undefined : { filter: filterOfText(population, '--statistics') }
  await withClient(options, environment, async (client) => {
    const { metric, limit, ef, exact, maxDistance, words, balance, profile = false, rerank } = options
    const { highlight = false, cursor } = options
    const near = await nearOf(options, client)
    const include = {
      ...(near !== undefined && { distance: true }),
      payload: true,
      ...((words ?? options.boost ?? rerank) !== undefined && { scores: true }),
      ...(highlight && { highlight }),
    }
    const asked = {
      metric,
      limit,
      words,
      balance,
      statistics,
      ef,
      filter,
      exact,
      maxDistance,
      include,
      profile,
    }
    const page = { cursor: cursor === true ? '' : cursor }
    const answer = await client.searchHits({ ...near, ...asked, ...page, ...shapeOf(options) })
    if (answer.hits.length === 0) console.error(nothingFound(options, environment))
    let rank = 0
    for (const { value, hits } of answer.groups ?? [{ value: undefined, hits: answer.hits }]) {
      const group = value === undefined ? undefined : plainToJson(attributeJson(value))
      if (group !== undefined && options.json !== true) console.log(group)
      for (const hit of hits) {
        rank += 1
        console.log(hitLine(hit, rank, options.json ?? false, group))
      }
    }
    if (answer.nextCursor !== undefined) console.error(`next page: --cursor=${answer.nextCursor}`)
    if (answer.profile !== undefined) console.error(JSON.stringify(answer.profile, undefined, 2))
  })
}

function nothingFound(options: QueryOptions, environment: Environment): string {
  const collection = collectionOf(options, environment)
  const place = collection === undefined ? 'the database' : `the collection ${collection}`
  const { filter, maxDistance, words, like, groupBy } = options
  if ((filter ?? maxDistance ?? words ?? like ?? groupBy) !== undefined) return `nothing found in ${place}`
  return `nothing found: ${place} is empty`
}

function shapeOf(options: QueryOptions): Partial<Query> {
  const { boost, unlike, diversity, groupBy, groupSize, rerank, skipErrors } = options
  if (groupSize !== undefined && groupBy === undefined) throw new UsageError('--group-size needs --group-by')
  return {
    ...(boost && { boost: boostsIn(boost) }),
    ...(unlike && { unlike }),
    ...(diversity === undefined ? {} : { diversity }),
    ...(groupBy === undefined ? {} : { groupBy: { path: groupBy, size: groupSize } }),
    ...(rerank === undefined ? {} : { rerank }),
    ...(skipErrors && { onError: 'skip' }),
  }
}

/** What to search near; undefined for words alone. One point alone is itself in the answer. */
async function nearOf(
  options: QueryOptions,
  client: PointsClient,
): Promise<Pick<Query, 'vector' | 'text' | 'like'> | undefined> {
  const { text, like = [], unlike, vector, vectorFile } = options
  const examples = like.length === 0 ? {} : { like }
  if (text !== undefined) return { text, ...examples }
  if ((vector ?? vectorFile) !== undefined) return { vector: await vectorOf(options), ...examples }
  if (like.length === 0) return undefined
  if (like.length > 1 || unlike !== undefined) return examples
  return { vector: (await client.get(like[0]!)).vector }
}

function checkSources({ vector, vectorFile, like, text, row, words }: QueryOptions): void {
  const near = [vector, vectorFile, text].filter((each) => each !== undefined).length
  if (near > 1 || (near === 0 && (words ?? like) === undefined)) {
    throw new UsageError('give the query as one of --vector, --vector-file, --like and --text, or as --words')
  }
  if (row !== undefined && vectorFile === undefined) throw new UsageError('--row needs --vector-file')
}

async function vectorOf(options: QueryOptions): Promise<ArrayLike<number>> {
  const { vector, vectorFile, row } = options
  if (vectorFile !== undefined) checkReadable(vectorFile, '--vector-file')
  if (row !== undefined) return vectorOfRow(vectorFile!, row, options)
  if (vector !== undefined) return vectorIn(vector, '--vector')
  return vectorIn(readFileSync(vectorFile!, 'utf8'), vectorFile!)
}

async function vectorOfRow(file: string, row: number, options: QueryOptions): Promise<ArrayLike<number>> {
  let at = 0
  for await (const { where, point, fault } of readItems(file, { ...options, vectorsOnly: true })) {
    if (at === row && point !== undefined) return point.vector
    if (at === row) throw new Error(`${where}: ${fault}`)
    at += 1
  }
  throw new UsageError(`--row: ${file} has rows 0 to ${at - 1}, not ${row}`)
}

/** Formats a point as one line, and each text in which words were found as another. White space in a content would break the table; in JSON it is escaped. */
function hitLine(
  { id, payload, ...figures }: Hit,
  rank: number,
  asJson: boolean,
  group: string | undefined,
): string {
  const shown = group === undefined ? {} : { group: JSON.parse(group) as unknown }
  if (asJson) return plainToJson({ id, ...figures, ...shown, payload: payload && fieldsJson(payload) })
  const line = `${String(rank).padStart(3)}  ${id}  ${payload?.content?.replace(/\s+/g, ' ')}`
  const found = figures.highlight?.map(({ path, parts }) => {
    const text = parts.map((part, index) => (index % 2 === 0 ? part : `[${part}]`)).join('')
    return `     ${path}: ${text.replace(/\s+/g, ' ')}`
  })
  return [line, ...(found ?? [])].join('\n')
}
