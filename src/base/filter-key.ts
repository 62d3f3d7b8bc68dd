import { createHash } from 'node:crypto'
import { attributeToJson, DateTime, GeoPoint, type Scalar } from './attributes.ts'
import type { Filter, Test } from './filter.ts'
import { boundsText, operandText } from './filter-text.ts'
import { contentTypes } from './point.ts'
import { inTurns } from './turns.ts'

/**
 * Returns the key of a filter, in steps: filters that differ only in how they are written have the same key. Operands
 * are sorted and not repeated, nested `all` (or `any`) groups are merged, and double negations are removed. Longer
 * parts are replaced by their SHA-256, so the key has at most about a thousand characters. Keys identify filters in
 * caches and cursors. The key is kept for the lifetime of the `Filter` object.
 *
 * The order of more than 1,024 values matters: sorting them would cost more than what a key saves.
 */
export function* filterKey(filter: Filter): Generator<void, string, void> {
  const known = keys.get(filter)
  if (known !== undefined) return known
  const key = yield* keyOf(filter)
  keys.set(filter, key)
  return key
}

const keys = new WeakMap<Filter, string>()

/**
 * Whether a filter excludes no point, as its form shows: it has no condition, like `{"$or":[{}]}`, only conditions that
 * every point meets, like `{"$version":{"$gte":1}}`, or a condition beside its opposite. Only conditions are compared,
 * no ranges: `{"$or":[{"a":{"$gte":5}},{"$not":{"a":{"$gte":7}}}]}` is not recognized.
 */
export async function matchesEveryPoint(filter: Filter): Promise<boolean> {
  return (await inTurns(filterKey(filter))) === everything
}

type Steps = Generator<void, string, void>

const everything = 'all()'
const nothing = 'any()'

function* keyOf(filter: Filter): Steps {
  switch (filter.kind) {
    case 'all':
      return yield* groupKey(filter.of, 'all', everything, nothing)
    case 'any':
      return yield* groupKey(filter.of, 'any', nothing, everything)
    case 'not':
      return opposite(yield* keyOf(filter.of))
    case 'ids':
      return filter.ids.length === 0 ? nothing : `ids(${yield* idsKey(filter.ids)})`
    case 'partitions':
      return `partitions(${Buffer.from(filter.partitions).toString('hex')})`
    case 'condition':
      return yield* testKey(filter.path, filter.test)
  }
}

/**
 * @param neutral the operand that changes nothing: the key of a group without operands
 * @param absorbing the operand that decides alone
 */
function* groupKey(of: readonly Filter[], kind: 'all' | 'any', neutral: string, absorbing: string): Steps {
  const parts = new Set<string>()
  for (const operand of flattened(of, kind)) {
    parts.add(yield* keyOf(operand))
    yield
  }
  parts.delete(neutral)
  if (parts.has(absorbing)) return absorbing
  if (parts.size <= 1) return parts.values().next().value ?? neutral
  for (const part of parts) if (parts.has(opposite(part))) return absorbing
  return shortened(`${kind}(${[...parts].sort().join(',')})`)
}

/** The operands of a group and of the groups of the same kind nested in it. */
function* flattened(of: readonly Filter[], kind: 'all' | 'any'): Generator<Filter, void, void> {
  for (const operand of of) {
    // A group with one operand, of any kind, means the same as the operand.
    const isSame =
      operand.kind === kind || ((operand.kind === 'all' || operand.kind === 'any') && operand.of.length === 1)
    if (isSame) yield* flattened((operand as { readonly of: readonly Filter[] }).of, kind)
    else if (operand.kind === 'not' && operand.of.kind === 'not') yield* flattened([operand.of.of], kind)
    else yield operand
  }
}

/** The key of a filter's complement. */
function opposite(key: string): string {
  if (key === everything) return nothing
  if (key === nothing) return everything
  return key.startsWith('not(') ? key.slice(4, -1) : `not(${key})`
}

function* testKey(path: string, test: Test): Steps {
  if (isMetByAll(path, test)) return everything
  const name = JSON.stringify(path)
  if ('values' in test) {
    if (test.values.length === 0) return test.op === 'in' ? nothing : everything
    // With one value, both mean the same.
    const op = test.values.length === 1 ? 'in' : test.op
    return shortened(`${name} ${op} [${yield* valuesKey(test.values)}]`)
  }
  return shortened(`${name} ${test.op} ${'bounds' in test ? boundsText(test.bounds) : operandText(test)}`)
}

/** Every point has a content type and a version, which is at least 1. */
function isMetByAll(path: string, test: Test): boolean {
  if (path === '$content_type')
    return test.op === 'in' && contentTypes.every((type) => test.values.includes(type))
  if (path !== '$version' || test.op !== 'range') return false
  const { gt = 0, gte = 1, lt, lte } = test.bounds
  return (gt as number) < 1 && (gte as number) <= 1 && lt === undefined && lte === undefined
}

function* valuesKey(values: readonly Scalar[]): Steps {
  if (values.length <= valuesPerStep) return [...new Set(values.map(attributeToJson))].sort().join(',')
  const hash = createHash('sha256')
  for (let at = 0; at < values.length; at += valuesPerStep) {
    hash.update(`${listKey(values.slice(at, at + valuesPerStep))},`)
    yield
  }
  return `sha256 ${hash.digest('hex')}`
}

/** Writes plain values as one JSON list, which takes a tenth of the time of writing them one by one. */
function listKey(values: readonly Scalar[]): string {
  const isPlain = values.every((value) => !(value instanceof DateTime || value instanceof GeoPoint))
  return isPlain ? JSON.stringify(values).slice(1, -1) : values.map(attributeToJson).join(',')
}

const valuesPerStep = 1024

function* idsKey(ids: Uint8Array): Steps {
  if (ids.length <= keyMax / 4) return Buffer.from(ids).toString('hex')
  const hash = createHash('sha256')
  for (let start = 0; start < ids.length; start += bytesPerStep) {
    hash.update(ids.subarray(start, start + bytesPerStep))
    yield
  }
  return `sha256 ${hash.digest('hex')}`
}

const bytesPerStep = 262_144

const keyMax = 1024

/** Replaces a long key by its hash. No other key begins with "#". */
function shortened(key: string): string {
  return key.length <= keyMax ? key : `#${createHash('sha256').update(key).digest('hex')}`
}
