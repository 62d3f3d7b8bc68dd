import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../../src/base/attributes.ts'
import { DatabaseError } from '../../src/base/errors.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { Payload } from '../../src/base/point.ts'
import { seededRandom } from '../../test/support/random.ts'
import { AttributeIndex, type AttributeIndexOptions } from './attribute-index.ts'

function indexWith(options: Partial<AttributeIndexOptions> = {}): AttributeIndex {
  return new AttributeIndex({ findSlot: () => -1, copyId: () => {}, ...options })
}

function payloadWith(entries: readonly (readonly [string, AttributeValue])[]): Payload {
  return { contentType: 'Text', content: '', attributes: new Map(entries) }
}

function isOneOf(path: string, values: string | readonly string[]): Filter {
  return {
    kind: 'condition',
    path,
    test: { op: 'in', values: typeof values === 'string' ? [values] : values },
  }
}

/** Returns the matching slots and the number of steps that finding them took. */
function found(index: AttributeIndex, filter: Filter): { readonly slots: number[]; readonly steps: number } {
  const work = index.evaluate(filter)
  for (let steps = 1; ; steps += 1) {
    const step = work.next()
    if (step.done) return { slots: [...step.value], steps }
  }
}

/** Throws unless all points fit together. */
function checkAll(index: AttributeIndex, payloads: Iterable<Payload>): void {
  const check = index.capacityCheck()
  for (const payload of payloads) check.add(payload)
}

describe('a check for room', () => {
  it('refuses more paths than the limit, names the path and the limit, and changes nothing', () => {
    const index = indexWith({ pathsMax: 3 })
    index.set(0, { payload: payloadWith([['a', new Map([['b', 1]])]]), version: 1 })
    const [last, tooMany] = [payloadWith([['c', 1]]), payloadWith([['d', 1]])]
    checkAll(index, [last, last])
    assert.throws(
      () => checkAll(index, [last, tooMany]),
      (error) =>
        error instanceof DatabaseError &&
        error.reason === 'invalid_argument' &&
        /"d".* 3 /.test(error.message),
    )
    assert.deepEqual([...index.paths], ['a', 'a.b'])
    checkAll(index, [tooMany])
    index.delete(0)
    checkAll(index, [last, tooMany])
  })

  it('finds known paths through lists of maps, and names new ones below them', () => {
    const index = indexWith({ pathsMax: 2 })
    const known = payloadWith([['a', [new Map([['b', 1]]), [new Map([['b', 'x']])]]]])
    index.set(0, { payload: known, version: 1 })
    checkAll(index, [known])
    const deeper = payloadWith([['a', [new Map([['b', new Map([['c', 1]])]])]]])
    assert.throws(() => checkAll(index, [deeper]), /"a\.b\.c"/)
  })

  it('checks the memory that the points will use against the limit', () => {
    const index = indexWith({
      checkMemory: (bytes) => {
        if (bytes > 1_000_000) throw new DatabaseError('memory_full', `${bytes} bytes`)
      },
    })
    const small = payloadWith([['a', 'x']])
    checkAll(
      index,
      Array.from({ length: 100 }, () => small),
    )
    const large = payloadWith([['a', 'x'.repeat(60_000)]])
    assert.throws(
      () =>
        checkAll(
          index,
          Array.from({ length: 20 }, () => large),
        ),
      /bytes/,
    )
  })

  it('estimates roughly the memory that the points then use', () => {
    const claims: number[] = []
    const index = indexWith({ checkMemory: (bytes) => claims.push(bytes) })
    const payloads = Array.from({ length: 20_000 }, (_, number) =>
      payloadWith([
        ['id', `unique value ${number}`],
        ['kind', `kind ${number % 7}`],
        ['price', number / 3],
      ]),
    )
    checkAll(index, payloads)
    for (const [slot, payload] of payloads.entries()) index.set(slot, { payload, version: slot })
    const ratio = index.memoryBytes / claims.at(-1)!
    assert.ok(ratio > 0.5 && ratio < 1.5, `${index.memoryBytes} bytes, ${claims.at(-1)} claimed`)
  })
})

describe('memory of the index', () => {
  it('does not grow when a million unique values come and go', () => {
    const index = indexWith()
    let number = 0
    const write = (count: number): void => {
      for (const end = number + count; number < end; number += 1) {
        const payload = payloadWith([
          ['id', `value ${number}`],
          ['tags', [`tag ${number}`, `tag ${number + 1}`]],
          ['at', new DateTime(number)],
          ['where', new GeoPoint(number % 90, number % 180)],
        ])
        index.set(number % 1000, { payload, version: number })
      }
    }
    write(20_000)
    const before = index.memoryBytes
    write(230_000)
    assert.ok(index.memoryBytes < before * 1.5, `${before} bytes, then ${index.memoryBytes}`)
    assert.equal(found(index, isOneOf('id', `value ${number - 1}`)).slots.length, 1)
    assert.equal(found(index, isOneOf('id', 'value 0')).slots.length, 0)
  })

  it('does not grow when paths come and go', () => {
    const index = indexWith({ journalLength: 1 })
    const write = (from: number, to: number): void => {
      for (let number = from; number < to; number += 1) {
        index.set(number % 50, { payload: payloadWith([[`path ${number}`, number]]), version: number })
      }
    }
    write(0, 1000)
    const before = index.memoryBytes
    write(1000, 20_000)
    assert.equal(index.pathCount, 50)
    assert.ok(index.memoryBytes < before * 1.5, `${before} bytes, then ${index.memoryBytes}`)
  })

  it('is at most 60 bytes a point with six typical attributes', () => {
    const index = indexWith({ journalLength: 1 })
    const count = 100_000
    const random = seededRandom(3)
    for (let slot = 0; slot < count; slot += 1) {
      const payload = payloadWith([
        ['shop', `shop ${Math.floor(random() * 20)}`],
        ['brand', `brand ${Math.floor(random() * 300)}`],
        ['country', `country ${Math.floor(random() * 50)}`],
        ['price', random() * 100],
        ['year', 1900 + Math.floor(random() * 120)],
        ['sold', random() < 0.5],
      ])
      index.set(slot, { payload, version: slot })
    }
    assert.ok(index.memoryBytes / count <= 60, `${index.memoryBytes / count} bytes a point`)
  })

  it('keeps cached results within their limit, and still answers', () => {
    const index = indexWith({ cacheBytes: 10_000 })
    for (let slot = 0; slot < 100; slot += 1) {
      index.set(slot, { payload: payloadWith([['a', `${slot}`]]), version: slot })
    }
    const before = index.memoryBytes
    for (let value = 0; value < 100; value += 1) {
      const step = index.matching(isOneOf('a', `${value}`)).next()
      assert.ok(step.done && step.value.count === 1)
    }
    assert.ok(index.memoryBytes <= before + 10_000)
  })
})

describe('hostile attributes', () => {
  it('can have the names of JavaScript object members', () => {
    const index = indexWith()
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty']
    index.set(0, { payload: payloadWith(names.map((name) => [name, new Map([['x', name]])])), version: 1 })
    for (const name of names) assert.deepEqual(found(index, isOneOf(`${name}.x`, name)).slots, [0])
    assert.deepEqual(found(index, isOneOf('valueOf', 'x')).slots, [])
    index.delete(0)
    assert.equal(index.pathCount, 0)
  })

  it('can have many texts of 64 KiB', () => {
    const index = indexWith()
    const texts = Array.from({ length: 40 }, (_, number) => `${'é'.repeat(32_000)}${number}`)
    for (const [slot, text] of texts.entries()) {
      index.set(slot, { payload: payloadWith([['a', text]]), version: slot })
    }
    for (const [slot, text] of texts.entries())
      assert.deepEqual(found(index, isOneOf('a', text)).slots, [slot])
    for (let slot = 0; slot < 39; slot += 1) index.delete(slot)
    assert.deepEqual(found(index, isOneOf('a', texts[39]!)).slots, [39])
    assert.deepEqual(found(index, isOneOf('a', texts[0]!)).slots, [])
  })

  it('can be lists of thousands of values', () => {
    const index = indexWith()
    const values = Array.from({ length: 12_000 }, (_, number) => `${number}`)
    index.set(7, { payload: payloadWith([['a', [...values, ...values, 1, 2, 3, true]]]), version: 1 })
    assert.deepEqual(
      found(index, { kind: 'condition', path: 'a', test: { op: 'contains', values } }).slots,
      [7],
    )
    index.delete(7)
    assert.deepEqual(found(index, isOneOf('a', '5')).slots, [])
  })
})

describe('filters with very many values', () => {
  const index = indexWith()
  const count = 150_000
  for (let slot = 0; slot < count; slot += 1) {
    index.set(slot, { payload: payloadWith([['id', `id ${slot}`]]), version: slot + 1 })
  }

  it('are evaluated in many steps', () => {
    const values = Array.from({ length: 300_000 }, (_, number) => `id ${number * 2}`)
    const { slots, steps } = found(index, isOneOf('id', values))
    assert.equal(slots.length, count / 2)
    assert.ok(steps > 300, `${steps} steps`)
  })

  it('are prepared in steps, also if the values are places', () => {
    let reads = 0
    const place = {
      get lat() {
        reads += 1
        return reads % 90
      },
      lon: 1,
    }
    const values = Array.from({ length: 20_000 }, () => place as GeoPoint)
    const work = index.prepare({ kind: 'condition', path: 'at', test: { op: 'in', values } })
    for (let isDone = false; !isDone; ) {
      const before = reads
      isDone = work.next().done === true
      assert.ok(reads - before <= 5000, `${reads - before} reads in a step`)
    }
    assert.ok(reads >= values.length)
  })

  it('take little memory if no point can have so many', () => {
    const empty = indexWith()
    for (const made of [String, (number: number) => new DateTime(number)]) {
      const values = Array.from({ length: 100_000 }, (_, number) => made(number))
      const filter: Filter = { kind: 'condition', path: 'a', test: { op: 'contains', values } }
      const work = empty.prepare(filter)
      let step = work.next()
      while (!step.done) step = work.next()
      assert.ok(step.value.memoryBytes < 1000, `${step.value.memoryBytes} bytes`)
      assert.deepEqual(found(empty, filter).slots, [])
    }
  })

  it('are tested against a slot without scanning all values', () => {
    const values = new Set(Array.from({ length: 300_000 }, (_, number) => number))
    const filter: Filter = { kind: 'condition', path: '$version', test: { op: 'in', values: [...values] } }
    for (let slot = 0; slot < count; slot += 1) assert.equal(index.matches(filter, slot), true)
  })

  it('facets of unique values are exact and in ascending order', () => {
    const work = index.facets(['id'], undefined, 3)
    let steps = 1
    let step = work.next()
    for (; !step.done; step = work.next()) steps += 1
    assert.deepEqual(
      step.value.get('id'),
      ['id 0', 'id 1', 'id 10'].map((value) => ({ value, count: 1 })),
    )
    assert.ok(steps > 100, `${steps} steps`)
  })
})

describe('zone bounds', () => {
  it('include the additional values of a slot that is set while a filter is evaluated', () => {
    const index = indexWith()
    for (let slot = 0; slot < 10_000; slot += 1) {
      index.set(slot, { payload: payloadWith([['price', slot]]), version: slot })
    }
    const values = [-1, 1e6]
    const work = index.evaluate({ kind: 'condition', path: 'price', test: { op: 'in', values } })
    assert.equal(work.next().done, false)
    index.set(5000, { payload: payloadWith([['price', [5000, 8e6]]]), version: 10_001 })
    while (!work.next().done);
    const bounds = { gte: 8e6 }
    const filter: Filter = { kind: 'condition', path: 'price', test: { op: 'range', bounds } }
    assert.deepEqual(found(index, filter).slots, [5000])
  })
})

describe('slot sets that threads read', () => {
  it('are in shared memory, and stay unchanged when the index outgrows them', () => {
    const index = indexWith()
    const all: Filter = { kind: 'all', of: [] }
    const attributes: Attributes = new Map()
    const set = (slot: number): void =>
      index.set(slot, { payload: { contentType: 'Text', content: '', attributes }, version: 1 })
    set(0)
    const first = index.matching(all).next().value!
    assert.ok(first.words.buffer instanceof SharedArrayBuffer)
    set(100_000)
    const second = index.matching(all).next().value!
    assert.deepEqual([...second], [0, 100_000])
    assert.deepEqual([...first], [0])
  })
})
