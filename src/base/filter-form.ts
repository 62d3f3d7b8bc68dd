import { createHash } from 'node:crypto'
import { attributeToJson, numberToJson } from './attribute-json.ts'
import type { GeoPoint, Scalar } from './attributes.ts'
import type { Bounds, Filter, Test } from './filter.ts'
import { inTurns } from './turns.ts'

/**
 * Returns a filter's canonical form: the same text for filters that differ only in how they are written. Operands are
 * sorted and not repeated, nested `all` (or `any`) groups are merged, and double negations are removed. Longer parts
 * are replaced by their SHA-256, so the form has at most about a thousand characters and can be the key of a cache.
 */
export function canonicalFilter(filter: Filter): string {
  const steps = formInTurns(filter)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The same, but returns a promise for a filter with many values, so as not to block the event loop. */
export function canonicalFilterInTurns(filter: Filter): string | Promise<string> {
  return inTurns(voided(formInTurns(filter)))
}

function* voided(steps: Iterator<undefined, string>): Generator<void, string> {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    yield
  }
}

type Steps = Generator<undefined, string, void>

const everything = 'all()'
const nothing = 'any()'

function* formInTurns(filter: Filter): Steps {
  if (filter.kind === 'all') return yield* groupForm(filter.of, 'all', everything, nothing)
  if (filter.kind === 'any') return yield* groupForm(filter.of, 'any', nothing, everything)
  if (filter.kind === 'not') return yield* notForm(filter.of)
  if (filter.kind === 'ids') return filter.ids.length === 0 ? nothing : `ids(${yield* idsForm(filter.ids)})`
  if (filter.kind === 'partitions') return `partitions(${Buffer.from(filter.partitions).toString('hex')})`
  if (filter.kind === 'sample') return `sample(${filter.seed},${filter.below})`
  return yield* testForm(filter.path, filter.test)
}

/**
 * @param neutral the operand that changes nothing: the form of a group without operands
 * @param absorbing the operand that decides alone
 */
function* groupForm(of: readonly Filter[], kind: 'all' | 'any', neutral: string, absorbing: string): Steps {
  const forms = new Set<string>()
  for (const operand of flattened(of, kind)) forms.add(yield* formInTurns(operand))
  forms.delete(neutral)
  if (forms.has(absorbing)) return absorbing
  if (forms.size <= 1) return forms.values().next().value ?? neutral
  return shortened(`${kind}(${[...forms].sort().join(',')})`)
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

function* notForm(of: Filter): Steps {
  if (of.kind === 'not') return yield* formInTurns(of.of)
  if ((of.kind === 'all' || of.kind === 'any') && of.of.length === 1) return yield* notForm(of.of[0]!)
  const form = yield* formInTurns(of)
  if (form === everything) return nothing
  return form === nothing ? everything : shortened(`not(${form})`)
}

function* testForm(path: string, test: Test): Steps {
  const name = JSON.stringify(path)
  if (test.op === 'in' || test.op === 'contains') {
    if (test.values.length === 0) return test.op === 'in' ? nothing : everything
    const values = yield* valuesForm(test.values)
    // With one value, both mean the same.
    const op = values.isOne ? 'in' : test.op
    return shortened(`${name} ${op} [${values.form}]`)
  }
  return shortened(`${name} ${test.op} ${plainTestForm(test)}`)
}

function plainTestForm(test: Exclude<Test, { op: 'in' | 'contains' }>): string {
  if (test.op === 'exists') return ''
  if (test.op === 'range') return boundsForm(test.bounds)
  if (test.op === 'prefix') return JSON.stringify(test.prefix)
  if (test.op === 'near') return `${geoForm(test.center)} ${numberToJson(test.radiusM)}`
  return `${geoForm(test.southWest)} ${geoForm(test.northEast)}`
}

function boundsForm(bounds: Bounds): string {
  return (['gt', 'gte', 'lt', 'lte'] as const)
    .filter((bound) => bounds[bound] !== undefined)
    .map((bound) => `${bound} ${attributeToJson(bounds[bound]!)}`)
    .join(' ')
}

function geoForm(place: GeoPoint): string {
  return attributeToJson(place)
}

/**
 * The values as JSON, sorted and without repetitions. Many values are sorted in groups, so that no single sort is long.
 */
function* valuesForm(
  values: readonly Scalar[],
): Generator<undefined, { form: string; isOne: boolean }, void> {
  const texts = new Set<string>()
  for (const value of values) {
    texts.add(attributeToJson(value))
    if (texts.size % valuesPerTurn === 0) yield undefined
  }
  if (texts.size <= valuesPerTurn) return { form: [...texts].sort().join(','), isOne: texts.size === 1 }
  const groups = Array.from({ length: Math.ceil(texts.size / valuesPerTurn) }, (): string[] => [])
  let sorted = 0
  for (const text of texts) {
    groups[groupOf(text) % groups.length]!.push(text)
    sorted += 1
    if (sorted % valuesPerTurn === 0) yield undefined
  }
  const hash = createHash('sha256')
  for (const group of groups) {
    hash.update(`${group.sort().join(',')},`)
    yield undefined
  }
  return { form: `sha256 ${hash.digest('hex')}`, isOne: false }
}

const valuesPerTurn = 1024

/** A hash of the first and last characters. Values that differ only in the middle merely make one group larger. */
function groupOf(text: string): number {
  let hash = text.length
  for (let index = 0; index < 32 && index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
    hash = Math.imul(hash ^ text.charCodeAt(text.length - 1 - index), 0x01000193)
  }
  return (hash ^ (hash >>> 15)) >>> 0
}

function* idsForm(ids: Uint8Array): Steps {
  if (ids.length <= formMax / 4) return Buffer.from(ids).toString('hex')
  const hash = createHash('sha256')
  for (let start = 0; start < ids.length; start += bytesPerTurn) {
    hash.update(ids.subarray(start, start + bytesPerTurn))
    yield undefined
  }
  return `sha256 ${hash.digest('hex')}`
}

const bytesPerTurn = 262_144

const formMax = 1024

/** Replaces a long form by its hash. No other form begins with "#". */
function shortened(form: string): string {
  return form.length <= formMax ? form : `#${createHash('sha256').update(form).digest('hex')}`
}
