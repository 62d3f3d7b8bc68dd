import {
  aliasesMax,
  type CountedCollection,
  type PutCollectionInput,
  type SetAliasesInput,
  tooManyAliases,
} from '../../api/collections.ts'
import { inTurns } from '../../base/turns.ts'
import { expectKind, membersAt, readNumber, readString } from '../../messages/json-reader.ts'
import type { FieldNotes } from './ignored-fields.ts'
import type { JsonScanner } from './json-scanner.ts'
import { skipUnknown, wholeInTurns } from './json-values.ts'

/** Collections and aliases as JSON. Answers are small and rare, so they are built in one turn. */

export function decodeCollection(
  body: Buffer,
  notes: FieldNotes,
): PutCollectionInput | Promise<PutCollectionInput> {
  // Without a body, a collection has the default settings of the service.
  if (body.length === 0) return {}
  return inTurns(wholeInTurns(body, (json) => readCollection(json, notes)))
}

function* readCollection(
  json: JsonScanner,
  notes: FieldNotes,
): Generator<undefined, PutCollectionInput, void> {
  let dimension: number | undefined
  let hnsw: PutCollectionInput['hnsw']
  for (const key of membersAt(json, '')) {
    if (key === 'dimension') dimension = readNumber(json, 'dimension')
    else if (key === 'hnsw') hnsw = yield* readHnsw(json, notes)
    else yield* skipUnknown(json, '', key, notes, ['dimension', 'hnsw'])
    if (json.isTurnOver()) yield undefined
  }
  return { dimension, hnsw }
}

function* readHnsw(
  json: JsonScanner,
  notes: FieldNotes,
): Generator<undefined, PutCollectionInput['hnsw'], void> {
  let m: number | undefined
  let efConstruction: number | undefined
  for (const key of membersAt(json, 'hnsw.')) {
    if (key === 'm') m = readNumber(json, 'hnsw.m')
    else if (key === 'ef_construction') efConstruction = readNumber(json, 'hnsw.ef_construction')
    else yield* skipUnknown(json, 'hnsw.', key, notes, ['m', 'ef_construction'])
    if (json.isTurnOver()) yield undefined
  }
  return { m, efConstruction }
}

export function decodeAliases(body: Buffer, notes: FieldNotes): SetAliasesInput | Promise<SetAliasesInput> {
  return inTurns(wholeInTurns(body, (json) => readAliases(json, notes)))
}

/** Stops reading at the first alias beyond the limit. */
function* readAliases(json: JsonScanner, notes: FieldNotes): Generator<undefined, SetAliasesInput, void> {
  let set = new Map<string, string>()
  let remove: string[] = []
  for (const key of membersAt(json, '')) {
    if (key === 'set') {
      set = new Map()
      for (const alias of membersAt(json, 'set.')) {
        set.set(alias, readString(json, `set.${alias}`))
        if (set.size > aliasesMax) throw tooManyAliases()
      }
    } else if (key === 'remove') {
      expectKind(json, 'array', 'remove', 'an array of strings')
      remove = []
      for (const index of json.elements()) {
        if (index === aliasesMax) throw tooManyAliases()
        remove.push(readString(json, `remove[${index}]`))
      }
    } else yield* skipUnknown(json, '', key, notes, ['set', 'remove'])
    if (json.isTurnOver()) yield undefined
  }
  return { set, remove }
}

export function encodeCollections(collections: readonly CountedCollection[]): string {
  return JSON.stringify({ collections: collections.map(inJson) })
}

export function encodeCollection(collection: CountedCollection): string {
  return JSON.stringify(inJson(collection))
}

export function encodeAliases(aliases: ReadonlyMap<string, string>): string {
  return JSON.stringify({ aliases: Object.fromEntries([...aliases].sort(byName)) })
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1
}

/** Leaves out undefined fields. */
function inJson(info: CountedCollection): object {
  const { name, dimension, points, hnsw, aliases, partitions, embeddingModel } = info
  return {
    name,
    dimension,
    points,
    hnsw: { m: hnsw.m, ef_construction: hnsw.efConstruction },
    aliases,
    partitions,
    embedding_model: embeddingModel,
  }
}
