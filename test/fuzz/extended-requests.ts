import { fromBinary } from '@bufbuild/protobuf'
import { filterMessage } from '../../src/client/grpc-messages.ts'
import { patchIn } from '../../src/client/input.ts'
import { type AttributesInput, attributeFromJson, type Filter } from '../../src/client/values.ts'
import { type Attributes, AttributesSchema } from '../../src/messages/generated/vectordb_pb.js'
import * as values from '../../src/messages/values.ts'
import { encode } from '../../src/messages/writer.ts'
import type { Dice } from './dice.ts'
import { dimension } from './target.ts'

/** A valid request beyond the contract, in the form of each transport. */
export interface ExtendedRequest {
  readonly line: string
  readonly headers: readonly string[]
  readonly body: object
  readonly statuses: readonly number[]
  readonly rpc: string
  readonly message: object
  readonly codes: readonly number[]
}

/** @param ids few, so that requests reuse them */
export function extendedRequest(dice: Dice, ids: readonly string[]): ExtendedRequest {
  const make = dice.pick([
    ...[insert, put, put, patch, search, search, list, count, facets, update, remove],
    ...[declare, words, words, evaluate],
  ])
  return make(dice, dice.pick(ids))
}

const ok = 0
const invalid = 3
const notFound = 5
const exists = 6
const unmet = 9
const unavailable = 14

type Request = Omit<ExtendedRequest, 'headers'> & { readonly headers?: readonly string[] }

function request({ headers = [], ...rest }: Request): ExtendedRequest {
  return { ...rest, headers }
}

function insert(dice: Dice, id: string): ExtendedRequest {
  const { vector, attributes, payload } = pointOf(dice)
  const rule = dice.below(3)
  const key = dice.pick(['', '', `key-${dice.below(5)}`, 'k'.repeat(300), '\u00ff'])
  return request({
    line: 'POST /points',
    headers: key === '' ? [] : [`idempotency-key: ${key}`],
    body: { id, on_conflict: ['error', 'replace', 'skip'][rule], vector, payload },
    statuses: key === '' ? [201, 409] : [201, 400, 409, 422],
    rpc: 'InsertVector',
    message: { ...pointMessage(vector, attributes), id: idMessage(id), onConflict: rule },
    codes: [ok, exists],
  })
}

function put(dice: Dice, id: string): ExtendedRequest {
  const { vector, attributes, payload } = pointOf(dice)
  const tag = dice.pick(['', '', '"1"', '7', '*', 'W/"1"', '"99999999999999999999"', '"-1"', '""'])
  return request({
    line: `PUT /points/${id}`,
    headers: tag === '' ? [] : [`if-match: ${tag}`],
    body: { vector, payload, ...(dice.chance(0.3) ? { when: { version: dice.below(1000) } } : {}) },
    statuses: [200, 201, 412, ...(tag === '' ? [] : [400])],
    rpc: 'PutPoint',
    message: { id: idMessage(id), ...pointMessage(vector, attributes) },
    codes: [ok],
  })
}

function patch(dice: Dice, id: string): ExtendedRequest {
  const set = Object.fromEntries([[pathOf(dice), jsonOf(dice, 2)]])
  const filter = filterOf(dice)
  return request({
    line: `PATCH /points/${id}`,
    body: { set, content: 'patched', when: { filter } },
    statuses: [200, 400, 404, 412],
    rpc: 'PatchPoint',
    message: {
      id: idMessage(id),
      patch: { set: attributesMessage(set), content: 'patched' },
      when: { test: { case: 'filter', value: filterMessage(filter) } },
    },
    codes: [ok, invalid, notFound, unmet],
  })
}

function search(dice: Dice, id: string): ExtendedRequest {
  const near = dice.chance(0.3)
  const vector = vectorOf(dice)
  const [filter, limit, path] = [filterOf(dice), 1 + dice.below(50), pathOf(dice)]
  return request({
    line: 'POST /points/search',
    body: {
      ...(near ? { id } : { vector }),
      similarity: 'Manhattan',
      limit,
      filter,
      exact: dice.chance(0.5),
      max_distance: dice.below(100),
      include: {
        distance: true,
        payload: true,
        attributes: dice.chance(0.5) || [path],
        vector: true,
        version: true,
      },
      profile: true,
    },
    statuses: [200, 404],
    rpc: 'SearchPoints',
    message: {
      ...(near ? { nearId: idMessage(id) } : { queryVector: { values: vector } }),
      similarity: 1,
      limit: BigInt(limit),
      filter: filterMessage(filter),
      include: { distance: true, attributes: [path], version: true },
      profile: true,
    },
    codes: [ok, notFound],
  })
}

/** Declares words, or none. */
function declare(dice: Dice): ExtendedRequest {
  const settings = dice.chance(0.2) ? null : { language: 'auto', paths: { content: 1, [pathOf(dice)]: 2 } }
  const paths = settings && Object.entries(settings.paths).map(([path, weight]) => ({ path, weight }))
  return request({
    line: 'PUT /collections/default',
    body: { words: settings },
    // Paths of attributes of objects are not those of texts.
    statuses: [200, 400],
    rpc: 'PutCollection',
    message: {
      name: 'default',
      ...(paths === null ? { withoutWords: true } : { words: { language: 'auto', paths } }),
    },
    codes: [ok, invalid],
  })
}

function words(dice: Dice, id: string): ExtendedRequest {
  const text = hostileText(dice)
  const near = dice.chance(0.5)
  const [filter, limit] = [filterOf(dice), 1 + dice.below(50)]
  const balance = dice.pick([0, 0.5, 1, 2])
  const cursor = dice.pick(['', 'x', `${'a'.repeat(16)}.5`])
  return request({
    line: 'POST /points/search',
    body: {
      words: text,
      limit,
      filter,
      ...(near && { id, similarity: 'Cosine', balance }),
      ...(dice.chance(0.3) && { cursor }),
      include: { scores: true, highlight: true },
    },
    statuses: [200, 400, 404, 410, 503],
    rpc: 'SearchPoints',
    message: {
      words: text.toWellFormed(),
      limit: BigInt(limit),
      filter: filterMessage(filter),
      ...(near && { nearId: idMessage(id), similarity: 3, balance }),
      include: { scores: true, highlight: true },
    },
    codes: [ok, invalid, notFound, unavailable],
  })
}

function evaluate(dice: Dice, id: string): ExtendedRequest {
  const text = hostileText(dice)
  const grade = dice.pick([0, 1, 2, -1])
  const k = dice.below(20)
  const sweep = dice.pick([[], ['paths'], ['balance'], ['x']])
  return request({
    line: 'POST /points/evaluate',
    body: { judgements: [{ words: text, relevant: { [id]: grade } }], k, sweep },
    statuses: [200, 400, 503],
    rpc: 'EvaluatePoints',
    message: {
      judgements: [{ words: text.toWellFormed(), relevant: { [id]: grade } }],
      k: BigInt(k),
      sweep,
    },
    codes: [ok, invalid, unavailable],
  })
}

/** Marks, joiners, directions, halves of surrogate pairs, scripts without spaces. */
function hostileText(dice: Dice): string {
  const parts = [
    'x',
    'ok',
    ' ',
    '\u0301',
    '\u200d',
    '\u202e',
    '\ud800',
    '漢字',
    'ก็',
    '#_1.2',
    'שלום',
    '\u0000',
  ]
  return dice.list(1 + dice.below(12), () => dice.pick(parts)).join('')
}

function list(dice: Dice): ExtendedRequest {
  const filter = filterOf(dice)
  const cursor = dice.pick([
    '',
    '',
    'x',
    'AAAAAAAAAAAAAAAA',
    '\u0000',
    '-1',
    dice.bytes(12).toString('base64url'),
  ])
  return request({
    line: 'POST /points/list',
    body: { filter, limit: 1 + dice.below(100), cursor, include: { payload: true, version: true } },
    statuses: cursor === '' ? [200] : [200, 400],
    rpc: 'ListPoints',
    message: { filter: filterMessage(filter), limit: BigInt(1 + dice.below(100)), cursor },
    codes: cursor === '' ? [ok] : [ok, invalid],
  })
}

function count(dice: Dice): ExtendedRequest {
  const filter = filterOf(dice)
  return request({
    line: 'POST /points/count',
    body: { filter },
    statuses: [200],
    rpc: 'CountPoints',
    message: { filter: filterMessage(filter) },
    codes: [ok],
  })
}

function facets(dice: Dice): ExtendedRequest {
  const [filter, paths] = [filterOf(dice), dice.list(1 + dice.below(4), () => pathOf(dice))]
  return request({
    line: 'POST /points/facets',
    body: { filter, paths, limit: 1 + dice.below(1000) },
    statuses: [200],
    rpc: 'FacetPoints',
    message: { filter: filterMessage(filter), paths, limit: 1 + dice.below(1000) },
    codes: [ok],
  })
}

function update(dice: Dice): ExtendedRequest {
  const [filter, name] = [filterOf(dice), dice.pick(names)]
  const set = Object.fromEntries([[name, jsonOf(dice, 1)]])
  return request({
    line: 'POST /points/update',
    body: { filter, set, limit: 1 + dice.below(20), everything: true },
    // A patch can grow attributes beyond their limits.
    statuses: [200, 400],
    rpc: 'UpdatePoints',
    message: {
      filter: filterMessage(filter),
      patch: { set: attributesMessage(set) },
      limit: BigInt(1 + dice.below(20)),
      everything: true,
    },
    codes: [ok, invalid],
  })
}

function remove(dice: Dice): ExtendedRequest {
  const filter = filterOf(dice)
  return request({
    line: 'POST /points/delete',
    body: { filter, limit: 1 + dice.below(3), everything: true },
    statuses: [200],
    rpc: 'DeletePoints',
    message: { filter: filterMessage(filter), limit: BigInt(1 + dice.below(3)), everything: true },
    codes: [ok],
  })
}

/** Names that JavaScript, JSON or paths could misinterpret. */
const names = [
  'a',
  'b',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'length',
  '0',
  'é🦊',
  '\u0000',
  ' ',
]

export function vectorOf(dice: Dice): number[] {
  return dice.list(dimension, () => dice.float())
}

function pointOf(dice: Dice): { vector: number[]; attributes: Record<string, unknown>; payload: object } {
  const attributes = attributesOf(dice, 3)
  return { vector: vectorOf(dice), attributes, payload: { content_type: 'Text', content: 'x', attributes } }
}

function pointMessage(vector: number[], attributes: Record<string, unknown>): object {
  const payload = { contentType: 1, content: 'x', attributes: attributesMessage(attributes) }
  return { vector: { values: vector }, payload }
}

function idMessage(value: string): object {
  return { id: { value } }
}

function attributesMessage(json: object): Attributes {
  const { set } = patchIn({ set: attributeFromJson(json) as AttributesInput })
  return fromBinary(AttributesSchema, encode(AttributesSchema, values.attributesMessage(set!)))
}

export function attributesOf(dice: Dice, depth: number): Record<string, unknown> {
  return Object.fromEntries(dice.list(dice.below(4), () => [dice.pick(names), jsonOf(dice, depth - 1)]))
}

function jsonOf(dice: Dice, depth: number): unknown {
  if (depth > 0 && dice.chance(0.2)) return attributesOf(dice, depth)
  if (depth > 0 && dice.chance(0.2)) return dice.list(dice.size(20), () => jsonOf(dice, depth - 1))
  return scalarOf(dice)
}

function scalarOf(dice: Dice): unknown {
  return dice.pick<unknown>([
    '',
    'text',
    '\u0000\u2028🦊',
    0,
    2 ** 53,
    -1e308,
    5e-324,
    true,
    { $date: '0001-01-01T00:00:00Z' },
    { $date: '9999-12-31T00:00:00Z' },
    { $geo: { lat: 90, lon: -180 } },
  ])
}

function pathOf(dice: Dice): string {
  return dice.list(1 + dice.below(3), () => dice.pick(names)).join('.')
}

function filterOf(dice: Dice, depth = 3): Filter {
  if (depth > 0 && dice.chance(0.4)) {
    const of = dice.list(dice.size(6), () => filterOf(dice, depth - 1))
    return dice.pick<() => Filter>([
      () => ({ $and: of }),
      () => ({ $or: of }),
      () => ({ $not: filterOf(dice, depth - 1) }),
    ])()
  }
  const test = dice.pick<object>([
    { $eq: 'text' },
    { $ne: 0 },
    { $in: ['', 'text', 1, true] },
    { $nin: [] },
    { $gt: -1e308, $lte: 1e308 },
    { $gte: '', $lt: '\uffff' },
    { $exists: false },
    { $all: ['text', 0] },
    { $prefix: '' },
    { $near: { lat: 90, lon: 180, radius_m: 1e9 } },
    { $box: { south_west: { lat: -90, lon: 180 }, north_east: { lat: 90, lon: -180 } } },
  ])
  return Object.fromEntries([[pathOf(dice), test]]) as Filter
}
