import type { Attributes, AttributeValue } from '../../src/base/attributes.ts'
import { contentTypes, type NewPoint } from '../../src/base/point.ts'
import type { Database } from '../../src/points/database.ts'
import { insertIds } from '../support/insert-ids.ts'
import { seededRandom } from '../support/random.ts'
import { contentOf } from './oracle.ts'

/** The notes of the recorded program, one per line. */
export type Note =
  | { readonly kind: 'inserting'; readonly number: number; readonly count: number }
  | { readonly kind: 'inserted'; readonly number: number; readonly ids: readonly string[] }
  | { readonly kind: 'removing'; readonly id: string }
  | { readonly kind: 'removed'; readonly id: string }
  /** A change by filter of all points of an insert. */
  | { readonly kind: 'changing' | 'changed'; readonly change: GroupChange }

export interface GroupChange {
  readonly number: number
  readonly how: 'update' | 'delete' | 'expire' | 'move' | 'put'
  readonly ids: readonly string[]
}

/** 35 components: rows of 168 bytes, so that most rows share a sector with a neighbour and many cross a sector end. */
export const recordedDimension = 35

/** The points of an insert, determined by its number. */
export function pointsOf({ number, count }: { readonly number: number; readonly count: number }): NewPoint[] {
  const random = seededRandom(number)
  return Array.from({ length: count }, (_, index) => ({
    ...(hasOwnIds({ number }) ? { id: ownIdOf(number, index) } : {}),
    vector: Float32Array.from({ length: recordedDimension }, () => random() * 2 - 1),
    payload: {
      contentType: contentTypes[number % contentTypes.length]!,
      // Sometimes longer than an LMDB page.
      content: contentOf(`#${number}`, index, '€ä'.repeat(Math.floor(random() ** 6 * 3000))),
      // On all points of every second insert.
      ...(number % 2 === 0 ? { attributes: attributesOf(number, index), expiresAtUs: endUs - number } : {}),
    },
  }))
}

/** Every third insert has an idempotency key. */
export function isKeyed({ number }: { readonly number: number }): boolean {
  return number % 3 === 0
}

/** Every sixth insert continues after errors and has one, so that its outcome is stored with its key. */
function hasOwnIds({ number }: { readonly number: number }): boolean {
  return number % 6 === 0
}

function ownIdOf(number: number, index: number): string {
  return `00000000-0000-4000-8000-${(number * 1000 + index).toString(16).padStart(12, '0')}`
}

/** Stores the points of an insert, with its key if it has one. A repeated insert with a key stores nothing. */
export async function insertNoted(
  collection: Pick<Database, 'insert'>,
  insert: { readonly number: number; readonly count: number },
): Promise<readonly string[]> {
  const points = pointsOf(insert)
  const keyHash = Buffer.alloc(16)
  keyHash.writeUInt32BE(insert.number)
  const identity = isKeyed(insert) ? { keyHash, bodyHash: Buffer.alloc(16, insert.count) } : undefined
  if (!hasOwnIds(insert)) return await insertIds(collection, points, { identity })
  const { ids, errors } = await collection.insert([...points, points[0]!], { identity, onError: 'continue' })
  const [error, ...others] = errors
  if (error?.index !== points.length || error.error.reason !== 'invalid_argument' || others.length > 0)
    throw new Error(`a repeated id has the errors ${JSON.stringify(errors)}`)
  return ids.slice(0, -1).map(String)
}

function attributesOf(number: number, index: number): Attributes {
  return new Map<string, AttributeValue>([
    ['insert', number],
    ['places', ['ä', index, new Map([['odd', index % 2 === 1]])]],
  ])
}

/**
 * The point after a change; undefined if it was deleted. A move replaces the vector; a put keeps only the content.
 */
export function afterChange(
  { vector, payload }: NewPoint,
  { number, how }: GroupChange,
): NewPoint | undefined {
  if (how === 'delete' || how === 'expire') return undefined
  if (how === 'put') {
    const { contentType, content } = payload
    const attributes = new Map([['changed', number]])
    return { vector: vector.map((value) => value / 2), payload: { contentType, content, attributes } }
  }
  const attributes = new Map(payload.attributes).set('changed', number)
  return {
    vector: how === 'move' ? vector.map((value) => -value) : vector,
    payload: { ...payload, attributes },
  }
}

/** In the year 2100. */
export const endUs = 4_102_444_800_000_000

/** What the notes up to a moment guarantee. */
export interface Promised {
  /** By id: acknowledged points whose removal was not requested. */
  readonly live: ReadonlyMap<string, NewPoint>
  /** By id: acknowledged points whose removal was requested but not acknowledged. */
  readonly leaving: ReadonlyMap<string, NewPoint>
  readonly gone: ReadonlySet<string>
  /** Requested but unacknowledged changes, with the points before the change. These points are not in `live`. */
  readonly changing: ReadonlyMap<GroupChange, ReadonlyMap<string, NewPoint>>
  /** By number: requested but unacknowledged inserts. */
  readonly unanswered: ReadonlyMap<number, readonly NewPoint[]>
  /** Inserts with a key, and their answers. */
  readonly keyed: readonly KeyedInsert[]
}

export interface KeyedInsert {
  readonly number: number
  readonly count: number
  /** Undefined if the insert was not acknowledged. */
  readonly ids: readonly string[] | undefined
}

export function promisedBy(notes: readonly Note[]): Promised {
  const live = new Map<string, NewPoint>()
  const leaving = new Map<string, NewPoint>()
  const gone = new Set<string>()
  const unanswered = new Map<number, readonly NewPoint[]>()
  const changing = new Map<GroupChange, ReadonlyMap<string, NewPoint>>()
  const keyed = new Map<number, KeyedInsert>()
  for (const note of notes) {
    if (note.kind === 'inserting') {
      unanswered.set(note.number, pointsOf(note))
      const { number, count } = note
      if (isKeyed(note)) keyed.set(number, { number, count, ids: undefined })
    }
    if (note.kind === 'inserted') {
      const { number, ids } = note
      if (isKeyed(note)) keyed.set(number, { number, count: ids.length, ids })
      const points = unanswered.get(note.number)!
      unanswered.delete(note.number)
      for (const [index, id] of note.ids.entries()) live.set(id, points[index]!)
    }
    if (note.kind === 'removing') {
      leaving.set(note.id, live.get(note.id)!)
      live.delete(note.id)
    }
    if (note.kind === 'changing') {
      changing.set(note.change, new Map(note.change.ids.map((id) => [id, live.get(id)!])))
      for (const id of note.change.ids) live.delete(id)
    }
    if (note.kind === 'changed') {
      const [change, before] = [...changing].find(([each]) => each.number === note.change.number)!
      changing.delete(change)
      for (const [id, point] of before) {
        const after = afterChange(point, change)
        if (after === undefined) gone.add(id)
        else live.set(id, after)
      }
    }
    if (note.kind === 'removed') {
      leaving.delete(note.id)
      gone.add(note.id)
    }
  }
  return { live, leaving, gone, changing, unanswered, keyed: [...keyed.values()] }
}
