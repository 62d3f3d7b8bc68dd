import { placeOf } from '../../base/attribute-checks.ts'
import type { Scalar } from '../../base/attributes.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Bounds, Filter } from '../../base/filter.ts'
import type { FilterOperands } from '../../base/filter-builder.ts'
import { FilterBuilder, type Operator } from '../../base/filter-builder.ts'
import { atOnce } from '../../base/turns.ts'
import { readGeo, readScalar } from './attribute-codec.ts'
import { MergedMessage, Oneof } from './merged-message.ts'
import { type WireReader, wireFixed64, wireLength, wireVarint } from './wire.ts'

/**
 * Reads a `Filter`, with the same checks as in JSON. An unset oneof is refused: it would match other points than
 * intended.
 */
export function readFilter(message: WireReader, path: string): Filter {
  return atOnce(readFilterInTurns(message, path))
}

/** Reads a `Filter`; yields from time to time, so that a filter with many values does not block the event loop. */
export function* readFilterInTurns(message: WireReader, path: string): Generator<undefined, Filter, void> {
  return yield* new FilterReader().filter(message, path, 0)
}

const operatorNames: Readonly<Record<Operator, string>> = {
  eq: 'eq',
  ne: 'ne',
  in: 'any_of',
  nin: 'none_of',
  gt: 'range',
  gte: 'range',
  lt: 'range',
  lte: 'range',
  exists: 'exists',
  all: 'contains_all',
  prefix: 'prefix',
  near: 'near',
  box: 'box',
}

/** The field numbers of Filter. */
const nodes = { all: 1, any: 2, negate: 3, condition: 4, hasId: 5 } as const

/** The field numbers of Condition. */
const tests = {
  eq: 2,
  ne: 3,
  anyOf: 4,
  noneOf: 5,
  range: 6,
  exists: 7,
  containsAll: 8,
  prefix: 9,
  near: 10,
  box: 11,
} as const

const valuesPerTurn = 1024

type Steps<Value> = Generator<undefined, Value, void>

class FilterReader {
  readonly #builder = new FilterBuilder(operatorNames);

  /** @param depth the number of enclosing all, any and negate nodes */
  *filter(message: WireReader, at: string, depth: number): Steps<Filter> {
    this.#builder.enter(depth, at)
    const node = new Oneof()
    while (message.next()) {
      if (message.field <= nodes.hasId && message.type === wireLength) {
        node.setMessage(message.field, message.view())
      } else message.skip()
    }
    const { field } = node
    if (field === 0) throw invalid(`${at} has no node: one of all, any, negate, condition and has_id`)
    const inner = node.reader()
    if (field === nodes.all) return { kind: 'all', of: yield* this.#filters(inner, `${at}.all`, depth + 1) }
    if (field === nodes.any) return { kind: 'any', of: yield* this.#filters(inner, `${at}.any`, depth + 1) }
    if (field === nodes.hasId) return yield* this.#ids(inner, `${at}.has_id`)
    if (field === nodes.condition) return yield* this.#condition(inner, at)
    return this.#builder.not(yield* this.filter(inner, `${at}.negate`, depth + 1), `${at}.negate`)
  }

  *#filters(message: WireReader, at: string, depth: number): Steps<readonly Filter[]> {
    this.#builder.count(at)
    const of: Filter[] = []
    while (message.next()) {
      if (message.is(1, wireLength))
        of.push(yield* this.filter(message.message(), `${at}[${of.length}]`, depth))
      else message.skip()
    }
    return of
  }

  *#ids(message: WireReader, at: string): Steps<Filter> {
    const operands = this.#builder.operands('$id', 'in', at)
    let count = 0
    while (message.next()) {
      if (!message.is(1, wireLength)) {
        message.skip()
        continue
      }
      operands.add(readPointId(message.message()), at, count)
      count += 1
      if (count % valuesPerTurn === 0) yield undefined
    }
    return yield* this.#builder.anyOf(operands, at)
  }

  *#condition(message: WireReader, parentAt: string): Steps<Filter> {
    const test = new Oneof()
    let name = ''
    let exists = false
    let prefix = ''
    while (message.next()) {
      if (message.is(1, wireLength)) name = message.string()
      else if (message.is(tests.exists, wireVarint)) {
        exists = message.bool()
        test.setScalar(tests.exists)
      } else if (message.is(tests.prefix, wireLength)) {
        prefix = message.string()
        test.setScalar(tests.prefix)
      } else if (isMessageTest(message)) test.setMessage(message.field, message.view())
      else message.skip()
    }
    const at = name === '' ? `${parentAt}.condition.path` : placeOf(parentAt, name)
    const path = this.#builder.path(name, at)
    if (test.field === tests.exists) return this.#builder.exists(path, exists, `${at}.exists`)
    if (test.field === tests.prefix) return this.#builder.prefix(path, prefix, `${at}.prefix`)
    if (test.field === 0) throw invalid(`${at} has no test, like eq`)
    return yield* this.#messageTest(test.field, test.reader(), path, at)
  }

  *#messageTest(field: number, message: WireReader, path: string, at: string): Steps<Filter> {
    if (field === tests.eq) return yield* this.#equals(message, path, 'eq', `${at}.eq`)
    if (field === tests.ne) {
      return this.#builder.not(yield* this.#equals(message, path, 'ne', `${at}.ne`), `${at}.ne`)
    }
    if (field === tests.range) return this.#range(message, path, `${at}.range`)
    if (field === tests.near) return this.#near(message, path, `${at}.near`)
    if (field === tests.box) return this.#box(message, path, `${at}.box`)
    const operator = field === tests.anyOf ? 'in' : field === tests.noneOf ? 'nin' : 'all'
    const inner = `${at}.${operatorNames[operator]}`
    const operands = this.#builder.operands(path, operator, inner)
    yield* this.#values(message, operands, inner)
    if (operator === 'all') return this.#builder.contains(operands, inner)
    const found = yield* this.#builder.anyOf(operands, inner)
    return operator === 'nin' ? this.#builder.not(found, inner) : found
  }

  *#equals(message: WireReader, path: string, operator: 'eq' | 'ne', at: string): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    operands.add(readScalar(message, at), at)
    return yield* this.#builder.anyOf(operands, at)
  }

  *#values(message: WireReader, operands: FilterOperands, at: string): Steps<void> {
    let count = 0
    while (message.next()) {
      if (!message.is(1, wireLength)) {
        message.skip()
        continue
      }
      operands.add(readScalar(message.message(), `${at}[${count}]`), at, count)
      count += 1
      if (count % valuesPerTurn === 0) yield undefined
    }
  }

  #range(message: WireReader, path: string, at: string): Filter {
    const given = new Map<keyof Bounds, MergedMessage>()
    while (message.next()) {
      const name = boundNames[message.field]
      if (name === undefined || message.type !== wireLength) message.skip()
      else merge(given, name, message.view())
    }
    const bounds: { -readonly [Name in keyof Bounds]: Bounds[Name] } = {}
    for (const [name, value] of given) {
      const inner = `${at}.${name}`
      const scalar: Scalar = readScalar(value.reader(), inner)
      bounds[name] = this.#builder.bound(path, name, scalar, inner)
    }
    return this.#builder.range(path, bounds, at)
  }

  #near(message: WireReader, path: string, at: string): Filter {
    const centers = new Map<'center', MergedMessage>()
    let radiusM = 0
    while (message.next()) {
      if (message.is(1, wireLength)) merge(centers, 'center', message.view())
      else if (message.is(2, wireFixed64)) radiusM = message.double()
      else message.skip()
    }
    const center = required(centers.get('center'), `${at}.center`)
    return this.#builder.near(path, readGeo(center, `${at}.center`), radiusM, at)
  }

  #box(message: WireReader, path: string, at: string): Filter {
    const corners = new Map<'south_west' | 'north_east', MergedMessage>()
    while (message.next()) {
      if (message.is(1, wireLength)) merge(corners, 'south_west', message.view())
      else if (message.is(2, wireLength)) merge(corners, 'north_east', message.view())
      else message.skip()
    }
    const southWest = readGeo(required(corners.get('south_west'), `${at}.south_west`), `${at}.south_west`)
    const northEast = readGeo(required(corners.get('north_east'), `${at}.north_east`), `${at}.north_east`)
    return this.#builder.box(path, southWest, northEast, at)
  }
}

/** Names of bounds by field number in Range. */
const boundNames: readonly (keyof Bounds | undefined)[] = [undefined, 'gt', 'gte', 'lt', 'lte']

function isMessageTest({ field, type }: WireReader): boolean {
  return type === wireLength && field >= tests.eq && field <= tests.box && field !== tests.exists
}

function merge<Name>(messages: Map<Name, MergedMessage>, name: Name, bytes: Buffer): void {
  const message = messages.get(name) ?? new MergedMessage()
  message.add(bytes)
  messages.set(name, message)
}

function required(message: MergedMessage | undefined, at: string): WireReader {
  if (message === undefined) throw invalid(`${at} is missing`)
  return message.reader()
}

/** Reads the id in a PointID; empty if there is none. */
function readPointId(message: WireReader): string {
  let id = ''
  while (message.next()) {
    if (!message.is(1, wireLength)) {
      message.skip()
      continue
    }
    const uuid = message.message()
    while (uuid.next()) {
      if (uuid.is(1, wireLength)) id = uuid.string()
      else uuid.skip()
    }
  }
  return id
}

function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}
