import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { NewPoint } from '../base/point.ts'
import { type ErrorNote, errorOf, noteOf } from './error-note.ts'
import type { Parts } from './parts.ts'
import { type RecordReader, type RecordWriter, textBytes, vectorBytes } from './record.ts'
import type { Outgoing } from './record-ring.ts'
import { readPoint, writePoint } from './requests.ts'

/** What the engine answers to a front. */
export type FrontAnswer =
  | { readonly kind: 'point'; readonly point: NewPoint | undefined }
  | { readonly kind: 'removed'; readonly removed: boolean }
  | { readonly kind: 'inserted'; readonly ids: readonly string[] }
  | { readonly kind: 'found'; readonly lists: IdLists }
  | { readonly kind: 'failed'; readonly error: Error }

const kinds = ['none', 'point', 'removed', 'inserted', 'found', 'failed'] as const

/**
 * The bytes of an answer's record:
 *
 *   number of the request, kind                             2 x i32
 *   none:     there is no such point
 *   point:    content type, vector, content                 i32; i32 length, f32 each; i32 bytes, UTF-8
 *   removed:  0 or 1                                        i32
 *   inserted: ids, in the order of the points               i32; 16 bytes each
 *   found:    lists, the end of each, then all ids          i32; i32 each; 16 bytes each
 *   failed:   reason, message, cause                        three texts: i32 bytes, UTF-8
 */
export function packAnswer(number: number, answer: FrontAnswer): Outgoing {
  if (answer.kind === 'inserted') return packInserted(number, answer.ids)
  if (answer.kind === 'found') return packFound(number, answer.lists)
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
  if (kind === 'inserted') return { kind, ids: yield* readInserted(record) }
  if (kind === 'found') return { kind, lists: readFound(record) }
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

function packInserted(number: number, ids: readonly string[]): Outgoing {
  return pack(number, 'inserted', 4 + ids.length * idBytes, function* (target) {
    target.integer(ids.length)
    for (const [index, id] of ids.entries()) {
      target.id(id)
      if (index % idsPerPart === idsPerPart - 1) yield
    }
  })
}

function* readInserted(record: RecordReader): Parts<string[]> {
  const ids: string[] = []
  for (let left = record.integer(); left > 0; left -= 1) {
    ids.push(record.id())
    if (left % idsPerPart === 0) yield
  }
  return ids
}

/** Writing or reading so many takes well under a millisecond. */
const idsPerPart = 1024

function packFound(number: number, { bytes, ends, total }: IdLists): Outgoing {
  return pack(number, 'found', (1 + ends.length) * 4 + total * idBytes, function* (target) {
    target.integer(ends.length)
    for (const end of ends) target.integer(end)
    for (let first = 0; first < total; first += copiedPerPart) {
      yield target.ids(bytes.subarray(first * idBytes, Math.min(first + copiedPerPart, total) * idBytes))
    }
  })
}

function readFound(record: RecordReader): IdLists {
  const ends = Array.from({ length: record.integer() }, () => record.integer())
  return new IdLists(record.ids(ends.at(-1) ?? 0), ends)
}

/** A megabyte of ids. */
const copiedPerPart = 65_536

function packFailure(number: number, { reason, message, cause }: ErrorNote): Outgoing {
  const bytes = textBytes(reason) + textBytes(message) + textBytes(cause)
  return pack(number, 'failed', bytes, (target) => {
    target.text(reason)
    target.text(message)
    target.text(cause)
  })
}
