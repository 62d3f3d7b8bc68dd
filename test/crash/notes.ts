import type { Attributes, AttributeValue } from '../../src/base/attributes.ts'
import { contentTypes, type NewPoint } from '../../src/base/point.ts'
import { seededRandom } from '../support/random.ts'
import { contentOf } from './oracle.ts'

/** What the recorded program says about itself, one line each. */
export type Note =
  | { readonly kind: 'inserting'; readonly number: number; readonly count: number }
  | { readonly kind: 'inserted'; readonly number: number; readonly ids: readonly string[] }
  | { readonly kind: 'removing'; readonly id: string }
  | { readonly kind: 'removed'; readonly id: string }
  /** Of all points that an insert stored, by a filter. */
  | { readonly kind: 'changing' | 'changed'; readonly change: GroupChange }

export interface GroupChange {
  readonly number: number
  readonly how: 'update' | 'delete' | 'expire' | 'move'
  readonly ids: readonly string[]
}

/** 35 components: rows of 168 bytes, so that most share a sector with a neighbour and many cross its end. */
export const recordedDimension = 35

/** The points of an insert follow from its number. */
export function pointsOf({ number, count }: { readonly number: number; readonly count: number }): NewPoint[] {
  const random = seededRandom(number)
  return Array.from({ length: count }, (_, index) => ({
    vector: Float32Array.from({ length: recordedDimension }, () => random() * 2 - 1),
    payload: {
      contentType: contentTypes[number % contentTypes.length]!,
      // Now and then longer than LMDB's page.
      content: contentOf(`#${number}`, index, '€ä'.repeat(Math.floor(random() ** 6 * 3000))),
      // Of every second insert all points.
      ...(number % 2 === 0 ? { attributes: attributesOf(number, index), expiresAtUs: endUs - number } : {}),
    },
  }))
}

function attributesOf(number: number, index: number): Attributes {
  return new Map<string, AttributeValue>([
    ['insert', number],
    ['places', ['ä', index, new Map([['odd', index % 2 === 1]])]],
  ])
}

/** The point after a change; undefined when it is gone. A moved one has another vector. */
export function afterChange(
  { vector, payload }: NewPoint,
  { number, how }: GroupChange,
): NewPoint | undefined {
  if (how === 'delete' || how === 'expire') return undefined
  const attributes = new Map(payload.attributes).set('changed', number)
  return {
    vector: how === 'move' ? vector.map((value) => -value) : vector,
    payload: { ...payload, attributes },
  }
}

/** In the year 2100. */
const endUs = 4_102_444_800_000_000

/** What the notes up to some time promise. */
export interface Promised {
  /** By id: acknowledged, and its removal not asked for. */
  readonly live: ReadonlyMap<string, NewPoint>
  /** Acknowledged, its removal asked for and not acknowledged. */
  readonly leaving: ReadonlyMap<string, NewPoint>
  readonly gone: ReadonlySet<string>
  /** Asked for and not acknowledged, with the points as they were; these are not among the live ones. */
  readonly changing: ReadonlyMap<GroupChange, ReadonlyMap<string, NewPoint>>
  /** By number: asked for and not acknowledged. */
  readonly unanswered: ReadonlyMap<number, readonly NewPoint[]>
}

export function promisedBy(notes: readonly Note[]): Promised {
  const live = new Map<string, NewPoint>()
  const leaving = new Map<string, NewPoint>()
  const gone = new Set<string>()
  const unanswered = new Map<number, readonly NewPoint[]>()
  const changing = new Map<GroupChange, ReadonlyMap<string, NewPoint>>()
  for (const note of notes) {
    if (note.kind === 'inserting') unanswered.set(note.number, pointsOf(note))
    if (note.kind === 'inserted') {
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
  return { live, leaving, gone, changing, unanswered }
}
