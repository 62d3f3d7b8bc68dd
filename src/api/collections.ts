import { checkPath } from '../base/attributes.ts'
import {
  type CollectionInfo,
  type CollectionSettings,
  collectionName,
  collectionNameRule,
  type HnswSettings,
  hnswBounds,
  type WordLanguageChoice,
  type WordSettings,
  wordBounds,
  wordLanguageChoices,
} from '../base/collection.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import { partitionCount } from '../base/partitions.ts'
import { dimensionMax } from '../base/point.ts'
import { type QuotaName, type Quotas, quotaBounds } from '../base/quotas.ts'
import { snakeCase } from '../base/spelling.ts'
import type { ApiContext, Call } from './call.ts'
import { checkBetween, checkEnum, checkWhole, type IntegerInput } from './validation.ts'

/** The operations on collections themselves, and the checks of their names. */

export interface CollectionInput {
  readonly name?: string | undefined
}

export interface PutCollectionInput extends CollectionInput {
  readonly dimension?: IntegerInput | undefined
  readonly hnsw?: HnswInput | undefined
  /** null: no words. */
  readonly words?: WordsInput | null | undefined
  /** Without a field: none. */
  readonly quotas?: QuotasInput | undefined
}

export type QuotasInput = { readonly [Name in QuotaName]?: IntegerInput | undefined }

export interface WordsInput {
  readonly language?: string | undefined
  /** The weight of each path. */
  readonly paths?: ReadonlyMap<string, number> | undefined
  readonly k1?: number | undefined
  readonly b?: number | undefined
}

interface HnswInput {
  readonly m?: IntegerInput | undefined
  readonly efConstruction?: IntegerInput | undefined
}

export interface SetAliasesInput {
  /** The collection that each alias will refer to. */
  readonly set?: ReadonlyMap<string, string> | undefined
  readonly remove?: readonly string[] | undefined
}

/** A collection whose points are counted on all nodes. */
export interface CountedCollection extends CollectionInfo {
  /** Only in a cluster that divides the points among its nodes. The points of missing partitions are not counted. */
  readonly partitions?: { readonly total: number; readonly missing: number } | undefined
}

/** Lists the collections with their aliases, in alphabetical order. */
export async function listCollections(
  context: ApiContext,
  _: undefined,
  call: Call,
): Promise<readonly CountedCollection[]> {
  const infos = context.collections.list().map((info) => withModel(context, info))
  return await counted(context, infos, undefined, call)
}

/** Returns one collection, by name or alias. Fails with `collection_not_found`. */
export async function getCollection(
  context: ApiContext,
  { name }: CollectionInput,
  call: Call,
): Promise<CountedCollection> {
  return await whole(context, context.collections.get(checkName(name, 'name')), call)
}

/**
 * Creates a collection. Idempotent: does nothing if the collection exists with the same settings. Its words and quotas
 * can be changed at any time.
 *
 * Fails with `already_exists` if it exists with other settings.
 */
export async function putCollection(
  context: ApiContext,
  { name, dimension, hnsw = {}, words, quotas }: PutCollectionInput,
  call: Call,
): Promise<{ readonly created: boolean; readonly info: CountedCollection }> {
  const settings: CollectionSettings = {
    dimension:
      dimension === undefined ? undefined : checkWhole(dimension, 'dimension', { min: 1, max: dimensionMax }),
    hnsw: checkHnsw(hnsw),
    ...(words === undefined ? {} : { words: words && checkWords(words) }),
    ...(quotas === undefined ? {} : { quotas: checkQuotas(quotas) }),
  }
  if (quotas !== undefined) checkMaySetQuotas(call, 'sets')
  const { created, info } = await context.collections.put(checkName(name, 'name'), settings)
  return { created, info: created ? withModel(context, info) : await whole(context, info, call) }
}

/** Deletes a collection with all its points. Fails with `collection_not_found`. */
export async function deleteCollection(
  { collections }: ApiContext,
  { name: given }: CollectionInput,
  call: Call,
): Promise<undefined> {
  const name = checkName(given, 'name')
  if (call.key !== undefined && collections.get(name).quotas !== undefined) checkMaySetQuotas(call, 'removes')
  await collections.drop(name)
}

/** Quotas would bound nobody if those could lift them whom they bound. */
function checkMaySetQuotas({ key }: Call, does: string): void {
  if (key === undefined || key.role === 'admin') return
  const message = `the key ${key.name} has the role ${key.role}: only a key of the role admin ${does} quotas of a collection`
  throw new DatabaseError('permission_denied', message)
}

/** Sets and removes aliases atomically; resolves with all aliases that exist afterwards. */
export async function setAliases(
  { collections }: ApiContext,
  { set = new Map(), remove = [] }: SetAliasesInput,
): Promise<ReadonlyMap<string, string>> {
  if (set.size + remove.length > aliasesMax) throw tooManyAliases()
  for (const [alias, target] of set) {
    checkName(alias, 'alias in set')
    checkName(target, `set.${alias}`)
    if (remove.includes(alias)) throw invalid(`the alias ${alias} is in set and in remove`)
  }
  for (const [index, alias] of remove.entries()) checkName(alias, `remove[${index}]`)
  await collections.setAliases(set, remove)
  return collections.aliases
}

/** @param field the transport's name for the field */
export function checkName(name: string | undefined, field: string): string {
  if (name === undefined || name === '') throw invalid(`${field} is missing`)
  if (collectionName.test(name)) return name
  const shown = JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)
  throw invalid(`${field} ${shown} cannot be the name of a collection: ${collectionNameRule}`)
}

async function whole(context: ApiContext, info: CollectionInfo, call: Call): Promise<CountedCollection> {
  const [only] = await counted(context, [withModel(context, info)], info.name, call)
  return only!
}

/**
 * Adds the points of all nodes, in a cluster that divides the points among its nodes. The list of collections is always
 * complete. If no node answers for a partition, its points are not counted, and the answer says so.
 *
 * @param name the only collection to count; undefined for all
 */
async function counted(
  { collections, position = 0 }: ApiContext,
  infos: readonly CollectionInfo[],
  name: string | undefined,
  { signal }: Call,
): Promise<readonly CountedCollection[]> {
  const onNodes = await collections.countOnNodes?.(name, position, signal)
  if (onNodes === undefined) return infos
  const { points, missing } = onNodes
  const partitions = missing === undefined ? undefined : { total: partitionCount, missing }
  return infos.map((info) => ({
    ...info,
    points: points.get(info.name) ?? 0,
    ...(partitions && { partitions }),
  }))
}

/** All collections have the same model: it belongs to the service. */
function withModel({ embeddings }: ApiContext, info: CollectionInfo): CollectionInfo {
  return embeddings === undefined ? info : { ...info, embeddingModel: embeddings.model }
}

function checkHnsw({ m, efConstruction }: HnswInput): HnswSettings {
  return {
    m: m === undefined ? undefined : checkWhole(m, 'hnsw.m', hnswBounds.m),
    efConstruction:
      efConstruction === undefined
        ? undefined
        : checkWhole(efConstruction, 'hnsw.ef_construction', hnswBounds.efConstruction),
  }
}

function checkWords({ language = 'auto', paths, k1, b }: WordsInput): WordSettings {
  if (paths === undefined || paths.size === 0)
    throw invalid(`words.paths is missing or empty, it needs 1 to ${wordBounds.paths} like {"content": 1}`)
  if (paths.size > wordBounds.paths) throw tooManyWordPaths()
  return {
    language: checkEnum<WordLanguageChoice>(language, wordLanguageChoices, 'words.language'),
    paths: Array.from(paths, ([path, weight]) => ({
      path: checkPath(path, `words.paths.${path}`),
      weight: checkBetween(weight, `words.paths.${path}`, 0.001, wordBounds.weight),
    })),
    ...(k1 === undefined ? {} : { k1: checkBetween(k1, 'words.k1', 0, wordBounds.k1) }),
    ...(b === undefined ? {} : { b: checkBetween(b, 'words.b', 0, wordBounds.b) }),
  }
}

function checkQuotas(given: QuotasInput): Quotas {
  const quotas = (Object.keys(quotaBounds) as QuotaName[]).flatMap((name) => {
    const value = given[name]
    if (value === undefined) return []
    return [[name, checkWhole(value, `quotas.${snakeCase(name)}`, quotaBounds[name])] as const]
  })
  return Object.fromEntries(quotas)
}

export function tooManyWordPaths(): DatabaseError {
  return invalid(`words.paths has more than ${wordBounds.paths} paths, which is the maximum`)
}

/** How many aliases a call may change: this many fit into one commit without delaying others. */
export const aliasesMax = 1000

export function tooManyAliases(): DatabaseError {
  return invalid(`set and remove hold more than ${aliasesMax} aliases together, which is the maximum`)
}
