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

/** In the year 2100. */
const endUs = 4_102_444_800_000_000

/** What the notes up to some time promise. */
export interface Promised {
  /** By id: acknowledged, and its removal not asked for. */
  readonly live: ReadonlyMap<string, NewPoint>
  /** Acknowledged, its removal asked for and not acknowledged. */
  readonly leaving: ReadonlyMap<string, NewPoint>
  readonly gone: ReadonlySet<string>
  /** By number: asked for and not acknowledged. */
  readonly unanswered: ReadonlyMap<number, readonly NewPoint[]>
}

export function promisedBy(notes: readonly Note[]): Promised {
  const live = new Map<string, NewPoint>()
  const leaving = new Map<string, NewPoint>()
  const gone = new Set<string>()
  const unanswered = new Map<number, readonly NewPoint[]>()
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
    if (note.kind === 'removed') {
      leaving.delete(note.id)
      gone.add(note.id)
    }
  }
  return { live, leaving, gone, unanswered }
}
