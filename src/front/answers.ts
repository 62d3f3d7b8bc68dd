import type { NewPoint } from '../base/point.ts'
import { type ErrorNote, errorOf, noteOf } from './error-note.ts'
import type { Parts } from './parts.ts'
import { type RecordReader, type RecordWriter, textBytes, vectorBytes } from './record.ts'
import type { Outgoing } from './record-ring.ts'
import { idLength, readPoint, writePoint } from './requests.ts'

/** What the engine answers to a front. */
export type FrontAnswer =
  | { readonly kind: 'point'; readonly point: NewPoint | undefined }
  | { readonly kind: 'removed'; readonly removed: boolean }
  | { readonly kind: 'ids'; readonly lists: readonly (readonly string[])[] }
  | { readonly kind: 'failed'; readonly error: Error }

const kinds = ['none', 'point', 'removed', 'ids', 'failed'] as const

/**
 * The bytes of an answer's record:
 *
 *   number of the request, kind                             2 x i32
 *   none:     there is no such point
 *   point:    content type, vector, content                 i32; i32 length, f32 each; i32 bytes, UTF-8
 *   removed:  0 or 1                                        i32
 *   ids:      lists, the length of each, then all ids       i32; i32 each; 36 ASCII characters each
 *   failed:   reason, message, cause                        three texts: i32 bytes, UTF-8
 */
export function packAnswer(number: number, answer: FrontAnswer): Outgoing {
  if (answer.kind === 'ids') return packIds(number, answer.lists)
  if (answer.kind === 'failed') return packFailure(number, noteOf(answer.error))
  if (answer.kind === 'removed') {
    return pack(number, 'removed', 4, (target) => target.integer(answer.removed ? 1 : 0))
  }
  const { point } = answer
  if (point === undefined) return pack(number, 'none', 0, () => {})
  const bytes = 4 + vectorBytes(point.vector) + textBytes(point.payload.content)
  return pack(number, 'point', bytes, (target) => writePoint(target, point))
}

/** Reads what stands behind the request's number. */
export function* readAnswer(record: RecordReader): Parts<FrontAnswer> {
  const kind = kinds[record.integer()]!
  if (kind === 'none') return { kind: 'point', point: undefined }
  if (kind === 'point') return { kind, point: readPoint(record) }
  if (kind === 'removed') return { kind, removed: record.integer() === 1 }
  if (kind === 'ids') return { kind, lists: yield* readIds(record) }
  const note = { reason: record.text(), message: record.text(), cause: record.text() } as ErrorNote
  return { kind, error: errorOf(note) }
}

/** @param write writes what stands behind the number and the kind, in so many bytes */
function pack(
  number: number,
  kind: (typeof kinds)[number],
  bytes: number,
  write: (target: RecordWriter) => Parts<void> | void,
): Outgoing {
  return {
    bytes: 2 * 4 + bytes,
    *write(target) {
      target.integer(number)
      target.integer(kinds.indexOf(kind))
      yield* write(target) ?? []
    },
  }
}

/** Ids go as one text: making one string of ten and cutting it again costs less than ten of each. */
function packIds(number: number, lists: readonly (readonly string[])[]): Outgoing {
  const ids = lists.reduce((sum, { length }) => sum + length, 0)
  return pack(number, 'ids', (1 + lists.length) * 4 + ids * idLength, function* (target) {
    target.integer(lists.length)
    for (const { length } of lists) target.integer(length)
    for (const list of lists) yield target.ascii(list.join(''))
  })
}

function* readIds(record: RecordReader): Parts<string[][]> {
  const lengths = Array.from({ length: record.integer() }, () => record.integer())
  const lists: string[][] = []
  for (const length of lengths) {
    const text = record.ascii(length * idLength)
    lists.push(Array.from({ length }, (_, index) => text.slice(index * idLength, (index + 1) * idLength)))
    yield
  }
  return lists
}

function packFailure(number: number, { reason, message, cause }: ErrorNote): Outgoing {
  const bytes = textBytes(reason) + textBytes(message) + textBytes(cause)
  return pack(number, 'failed', bytes, (target) => {
    target.text(reason)
    target.text(message)
    target.text(cause)
  })
}
