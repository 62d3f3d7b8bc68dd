import { inTurns } from '../base/turns.ts'

/**
 * Answers that hold ids, as JSON: where there are many, written in turns into bytes of the right size, because
 * one string of megabytes takes long to make and long to send. Ids need no escaping.
 */

export type JsonAnswer = string | Buffer

/** `{"name":["…","…"]}` */
export function encodeIds(name: string, ids: readonly string[]): JsonAnswer | Promise<JsonAnswer> {
  if (ids.length <= idsPerStep) return JSON.stringify({ [name]: ids })
  return inTurns(written(`{"${name}":}`.length + listBytes(ids), textsOfOne(name, ids)))
}

/** `{"name":[["…","…"],["…"]]}` */
export function encodeIdLists(
  name: string,
  lists: readonly (readonly string[])[],
): JsonAnswer | Promise<JsonAnswer> {
  const commas = Math.max(0, lists.length - 1)
  const size = lists.reduce((sum, ids) => sum + listBytes(ids), `{"${name}":[]}`.length + commas)
  return inTurns(written(size, textsOfLists(name, lists)))
}

function* textsOfOne(name: string, ids: readonly string[]): Generator<string, void> {
  yield `{"${name}":`
  yield* textsOf(ids)
  yield '}'
}

function* textsOfLists(name: string, lists: readonly (readonly string[])[]): Generator<string, void> {
  yield `{"${name}":[`
  for (const [index, ids] of lists.entries()) {
    if (index > 0) yield ','
    yield* textsOf(ids)
  }
  yield ']}'
}

/** One list, a piece at a time. */
function* textsOf(ids: readonly string[]): Generator<string, void> {
  if (ids.length === 0) yield '[]'
  for (let first = 0; first < ids.length; first += idsPerStep) {
    const end = first + idsPerStep
    const text = `"${ids.slice(first, end).join('","')}"`
    yield `${first === 0 ? '[' : ','}${text}${end >= ids.length ? ']' : ''}`
  }
}

function* written(size: number, texts: Iterable<string>): Generator<void, Buffer> {
  const target = Buffer.allocUnsafe(size)
  let at = 0
  for (const text of texts) {
    at += target.write(text, at, 'latin1')
    yield
  }
  return target
}

/** Each id in its quotes, commas between them, and brackets around. */
function listBytes(ids: readonly string[]): number {
  return ids.length === 0 ? 2 : ids.length * (idLength + 3) + 1
}

const idLength = 36

/** Writing so many takes well under a millisecond. */
const idsPerStep = 1024
