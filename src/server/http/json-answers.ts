import type { AnswerRoom } from '../../base/byte-budget.ts'
import { type IdLists, idsPerStep, listSteps, type SpellableIds } from '../../base/id-lists.ts'
import { idLength } from '../../base/ids.ts'
import { inTurns } from '../../base/turns.ts'

/**
 * Answers with ids as JSON, written directly into a buffer of the right size, in turns if there are many. Ids need no
 * escaping.
 */

export type JsonAnswer = string | Buffer

/** Encodes all ids as one list: `{"name":["…","…"]}`. @param room counts the answer */
export function encodeIds(
  name: string,
  ids: SpellableIds,
  room?: AnswerRoom,
): JsonAnswer | Promise<JsonAnswer> {
  const { total } = ids
  const bytes = `{"${name}":}`.length + listBytes(total)
  room?.add(bytes)
  const target = Buffer.allocUnsafe(bytes)
  const at = target.write(`{"${name}":[`)
  if (total > idsPerStep) return inTurns(stepsOfIds(target, at, ids))
  closeList(target, writeIds(target, at, ids, 0, total), closingBrace)
  // Node sends a string together with the head of the answer; a buffer would be sent separately.
  return target.toString('latin1')
}

/** Encodes lists of ids: `{"name":[["…","…"],["…"]]}`. @param room counts the answer */
export function encodeIdLists(
  name: string,
  ids: IdLists,
  room?: AnswerRoom,
): JsonAnswer | Promise<JsonAnswer> {
  return inTurns(stepsOfLists(name, ids, room))
}

function* stepsOfIds(target: Buffer, at: number, ids: SpellableIds): Generator<void, Buffer> {
  let position = at
  yield* listSteps([ids.total], {
    ids(first, end) {
      position = writeIds(target, position, ids, first, end)
    },
  })
  closeList(target, position, closingBrace)
  return target
}

function* stepsOfLists(name: string, ids: IdLists, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const bytes = listsBytes(name, ids)
  room?.add(bytes)
  const target = Buffer.allocUnsafe(bytes)
  let at = target.write(`{"${name}":[`)
  yield* listSteps(ids.ends, {
    begin() {
      target[at] = openingBracket
      at += 1
    },
    ids(first, end) {
      at = writeIds(target, at, ids, first, end)
    },
    end() {
      at = closeList(target, at, comma)
    },
  })
  closeList(target, at, closingBrace)
  return target
}

/** Writes each id in quotes, followed by a comma; `closeList` replaces the last comma. */
function writeIds(target: Buffer, at: number, ids: SpellableIds, first: number, end: number): number {
  let position = at
  for (let number = first; number < end; number += 1) {
    target[position] = quote
    ids.spell(number, target, position + 1)
    target[position + 1 + idLength] = quote
    target[position + 2 + idLength] = comma
    position += idLength + 3
  }
  return position
}

/** Writes a bracket over the last comma, if there is one, then the byte `next`; returns the position after it. */
function closeList(target: Buffer, at: number, next: number): number {
  const end = target[at - 1] === comma ? at - 1 : at
  target[end] = closingBracket
  target[end + 1] = next
  return end + 2
}

function listsBytes(name: string, ids: IdLists): number {
  const lists = ids.ends.reduce((sum, _, list) => sum + listBytes(ids.lengthOf(list)), 0)
  return `{"${name}":[]}`.length + lists + Math.max(0, ids.length - 1)
}

/** The size of a list: ids in quotes, commas between them, and two brackets. */
function listBytes(ids: number): number {
  return ids === 0 ? 2 : ids * (idLength + 3) + 1
}

const quote = '"'.charCodeAt(0)
const comma = ','.charCodeAt(0)
const openingBracket = '['.charCodeAt(0)
const closingBracket = ']'.charCodeAt(0)
const closingBrace = '}'.charCodeAt(0)
