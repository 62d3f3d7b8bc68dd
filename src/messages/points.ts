import type { WordLanguageChoice, WordSettings } from '../base/collection.ts'
import {
  conflictRules,
  contentTypes,
  type Highlight,
  type HitDetails,
  type HitFigures,
  type NewPoint,
  type Patch,
  type Payload,
  type Precondition,
  type Profile,
} from '../base/point.ts'
import { filterMessage, filterOf } from './filters.ts'
import type * as messages from './generated/vectordb_pb.js'
import { type Encoded, valuesIn } from './reader.ts'
import { attributesMessage, attributesOf, idIn, idMessage, nameOf, payloadMessage } from './values.ts'
import { copyOf, type VectorOf, vectorIn } from './vectors.ts'
import type { Init } from './writer.ts'

/**
 * Points, hits and changes between the service's types and messages, for records of the log, callers and clients. What a
 * record says was checked before it was written.
 */

type Steps<Value> = Generator<undefined, Value, void>

export function newPointMessage({
  vector,
  payload,
  id,
  onConflict,
}: NewPoint): Init<messages.InsertVectorRequest> {
  return {
    vector: { values: vector },
    payload: payloadMessage(payload),
    id: id === undefined ? undefined : idMessage(id),
    onConflict: onConflict && conflictRules.indexOf(onConflict),
  }
}

export function newPointOf(message: Encoded<messages.InsertVectorRequest>, vectorOf: VectorOf): NewPoint {
  const { id, onConflict, ...stored } = message.read()
  const point = storedOf(stored, vectorOf)
  if (id === undefined) return point
  const rule = onConflict === 0 ? {} : { onConflict: nameOf(conflictRules, onConflict) }
  return { ...point, id: idIn(id), ...rule }
}

/** Returns the vector and the payload of a message that has both. */
export function storedOf(
  message: {
    readonly vector?: Encoded<messages.DenseVector> | undefined
    readonly payload?: Encoded<messages.Payload> | undefined
  },
  vectorOf: VectorOf,
): Pick<NewPoint, 'vector' | 'payload'> {
  const { vector, payload } = message
  if (vector === undefined || payload === undefined) throw new RangeError('a point lacks a part')
  return { vector: vectorIn(vector, vectorOf), payload: payloadOf(payload) }
}

function payloadOf(message: Encoded<messages.Payload>): Payload {
  const { contentType, content, attributes, expiresAtUs } = message.read()
  return {
    contentType: nameOf(contentTypes, contentType),
    content,
    ...(attributes && { attributes: attributesOf(attributes) }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs: Number(expiresAtUs) }),
  }
}

/** The fields of a hit or a point that were asked for. */
export function detailsMessage({ payload, vector, ...figures }: HitDetails): Init<messages.Hit> {
  return { ...figures, payload: payload && payloadMessage(payload), vector: vector && { values: vector } }
}

/** Reads a hit or a point with those fields that the message has. @param payloadIn reads the payload */
export function hitOf<StoredPayload>(
  message: Encoded<messages.Hit> | Encoded<messages.Point>,
  payloadIn: (message: Encoded<messages.Payload>) => StoredPayload,
): {
  readonly id?: string
  readonly distance?: number
  readonly payload?: StoredPayload
  readonly vector?: Float32Array
} & HitFigures {
  const { id, payload, vector, ...figures } = message.read()
  const highlight = 'highlight' in figures ? highlightOf(message as Encoded<messages.Hit>) : []
  return {
    ...(id === undefined ? {} : { id: idIn(id) }),
    ...(payload === undefined ? {} : { payload: payloadIn(payload) }),
    ...(vector === undefined ? {} : { vector: vectorIn(vector, copyOf) }),
    ...(highlight.length === 0 ? {} : { highlight }),
    ...valuesIn(figures),
  }
}

function highlightOf(message: Encoded<messages.Hit>): Highlight[] {
  return Array.from(message.items('highlight'), (each) => {
    const { path, parts } = each.read()
    return { path, parts }
  })
}

/** The change of a patch to points that no longer expire. */
const expiryPath = '$expires_at'

export function patchMessage(
  patch: Omit<Patch, 'vector'> & { readonly vector?: ArrayLike<number> | undefined },
): Init<messages.Patch> {
  const { set, unset, content, contentType, expiresAtUs, vector } = patch
  return {
    set: set && attributesMessage(set),
    unset: [...(unset ?? []), ...(expiresAtUs === null ? [expiryPath] : [])],
    content,
    contentType: contentType && contentTypes.indexOf(contentType),
    expiresAtUs: expiresAtUs ?? undefined,
    vector: vector && { values: vector },
  }
}

export function patchOf(message: Encoded<messages.Patch>, vectorOf: VectorOf): Patch {
  const { set, unset, content, contentType, expiresAtUs, vector } = message.read()
  const paths = unset.filter((path) => path !== expiryPath)
  return {
    ...(set && { set: attributesOf(set) }),
    ...(paths.length > 0 && { unset: paths }),
    ...(content === undefined ? {} : { content }),
    ...(contentType === undefined ? {} : { contentType: nameOf(contentTypes, contentType) }),
    ...(paths.length < unset.length && { expiresAtUs: null }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs: Number(expiresAtUs) }),
    ...(vector && { vector: vectorIn(vector, vectorOf) }),
  }
}

export function conditionMessage(when: Precondition | undefined): Init<messages.Precondition> | undefined {
  switch (when?.kind) {
    case 'version':
      return { test: { case: 'version', value: when.version } }
    case 'filter':
      return { test: { case: 'filter', value: filterMessage(when.filter) } }
    case 'absent':
      return { test: { case: 'absent', value: true } }
    case undefined:
      return undefined
  }
}

export function* conditionOf(
  message: Encoded<messages.Precondition> | undefined,
): Steps<Precondition | undefined> {
  const { test } = message?.read() ?? {}
  switch (test?.case) {
    case 'version':
      return { kind: 'version', version: Number(test.value) }
    case 'filter':
      return { kind: 'filter', filter: yield* filterOf(test.value) }
    case 'absent':
      return { kind: 'absent' }
    case undefined:
      if (message !== undefined) throw new RangeError('a condition has no test')
      return undefined
  }
}

export function profileOf(message: Encoded<messages.Profile>): Profile {
  const { plan, recallEstimate, ...figures } = message.read()
  const steps = Array.from(message.items('steps'), (each) => valuesIn(each.read()))
  return {
    plan: plan as Profile['plan'],
    ...valuesIn(figures),
    recallEstimate,
    ...(steps.length > 0 && { steps }),
  }
}

/** Reads the words that a collection declares. */
export function wordSettingsOf(message: Encoded<messages.WordSettings>): WordSettings {
  const { language, ...parameters } = message.read()
  const paths = Array.from(message.items('paths'), (each) => valuesIn(each.read()))
  return { language: language as WordLanguageChoice, paths, ...valuesIn(parameters) }
}
