import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { DatabaseError } from '../../base/errors.ts'
import { isUtf8InTurns, JsonScanner } from './json-scanner.ts'

/** A literal that is represented by its kind: the scanner's `skip` returns no value. */
interface Literal {
  readonly literal: 'boolean' | 'null'
}

/** Reads a whole value with the scanner. */
function readValue(json: JsonScanner): unknown {
  const kind = json.peek()
  if (kind === 'string') return json.string()
  if (kind === 'number') return json.number()
  if (kind === 'array') return Array.from(json.elements(), () => readValue(json))
  if (kind === 'object') {
    return new Map(Array.from(json.members(), (key) => [key, readValue(json)] as const))
  }
  json.skip()
  return { literal: kind } satisfies Literal
}

/** Converts the output of `JSON.parse` to what the scanner should read. */
function expected(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expected)
  if (value === null) return { literal: 'null' } satisfies Literal
  if (typeof value === 'boolean') return { literal: 'boolean' } satisfies Literal
  if (typeof value !== 'object') return value
  return new Map(Object.entries(value).map(([key, each]) => [key, expected(each)]))
}

type Attempt = { readonly value: unknown } | 'refused'

function attempt(text: string, read: (json: JsonScanner) => unknown): Attempt {
  try {
    const json = new JsonScanner(Buffer.from(text))
    const value = read(json)
    json.end()
    return { value }
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument') return 'refused'
    throw error
  }
}

function reference(text: string): Attempt {
  try {
    return { value: expected(JSON.parse(text)) }
  } catch {
    return 'refused'
  }
}

function assertAgreement(text: string): void {
  const right = reference(text)
  const read = attempt(text, readValue)
  const skipped = attempt(text, (json) => json.skip())
  const skippedInTurns = attempt(text, (json) => [...json.skipInTurns()].length)
  assert.deepEqual(sorted(read), sorted(right), text)
  assert.equal(skipped === 'refused', right === 'refused', text)
  assert.equal(skippedInTurns === 'refused', right === 'refused', text)
}

/** Sorts keys, because `JSON.parse` moves numeric keys to the front. */
function sorted(value: unknown): unknown {
  if (value instanceof Map) {
    return [...value]
      .map(([key, each]) => [key, sorted(each)])
      .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
  }
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value === 'object' && value !== null && 'value' in value) return { value: sorted(value.value) }
  return value
}

function isUtf8Stepwise(bytes: Buffer): boolean {
  const steps = isUtf8InTurns(bytes)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

const space = fc.stringMatching(/^[ \n\r\t]{0,2}$/)

/** JSON texts with all kinds of white space between their parts, and escapes in their strings. */
const jsonText = fc
  .tuple(fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }), space, fc.boolean())
  .map(([value, gap, escaped]) => {
    const text = JSON.stringify(value, null, gap)
    return escaped
      ? text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : text
  })

/** Noise of the characters that JSON uses, so that it resembles JSON. */
const nearJson = fc.string({
  unit: fc.constantFrom(...'{}[]:,"\\/-+.0123456789eEtrufalsn \n\t\u0000é'),
  maxLength: 12,
})

describe('the JSON scanner', () => {
  it('reads and skips what JSON.parse reads', () => {
    fc.assert(fc.property(jsonText, assertAgreement), { numRuns: 500 })
  })

  it('accepts and refuses damaged texts as JSON.parse does', () => {
    const damaged = fc.tuple(jsonText, fc.nat(), fc.nat(3), nearJson).map(([text, at, count, noise]) => {
      const start = at % (text.length + 1)
      return text.slice(0, start) + noise.slice(0, 2) + text.slice(start + count)
    })
    const wellFormed = damaged.filter((text) => text.isWellFormed() && text !== '')
    fc.assert(fc.property(wellFormed, assertAgreement), { numRuns: 2000 })
  })

  it('accepts and refuses noise as JSON.parse does', () => {
    fc.assert(
      fc.property(
        nearJson.filter((text) => text !== ''),
        assertAgreement,
      ),
      { numRuns: 3000 },
    )
  })

  it('accepts and refuses every form of a number and of an escape as JSON.parse does', () => {
    const signs = ['', '-', '+', '--']
    const wholes = ['', '0', '00', '01', '1', '10', '9007199254740993', '1'.repeat(400)]
    const fractions = ['', '.', '.0', '.50', '.e', `.${'3'.repeat(400)}`]
    const exponents = ['', 'e', 'e1', 'E+2', 'e-400', 'e400', 'e+', 'e1.5', 'e01']
    for (const sign of signs) {
      for (const whole of wholes) {
        for (const fraction of fractions) {
          for (const exponent of exponents) assertAgreement(`[${sign}${whole}${fraction}${exponent}]`)
        }
      }
    }
    for (const escaped of [
      '\\"',
      '\\/',
      '\\b',
      '\\u0041',
      '\\ud800',
      '\\u00g0',
      '\\u12',
      '\\x41',
      '\\',
      '\\U0041',
    ]) {
      assertAgreement(`"${escaped}"`)
      assertAgreement(`{"a${escaped}":["b${escaped}",1]}`)
    }
  })

  it('accepts any realistic nesting depth, and refuses deeper texts without a crash', () => {
    const deep = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
    assert.notEqual(
      attempt(deep(10_001), (json) => json.skip()),
      'refused',
    )
    assert.equal(
      attempt(deep(10_002), (json) => json.skip()),
      'refused',
    )
    assert.equal(
      attempt('{"a":'.repeat(1_000_000), (json) => json.skip()),
      'refused',
    )
  })

  it('yields from time to time while it skips many values', () => {
    const json = new JsonScanner(Buffer.from(`[${'{"a":[1]},'.repeat(10_000)}1] `))
    assert.equal([...json.skipInTurns()].length, 7)
    json.end()
  })

  it('checks UTF-8 in pieces, wherever a piece ends', () => {
    const pieceBytes = 1024 * 1024
    for (const character of ['a', 'é', '€', '🦊']) {
      const bytes = Buffer.byteLength(character)
      for (let before = 0; before <= bytes; before += 1) {
        const text = Buffer.from(`${'x'.repeat(pieceBytes - before)}${character}${'y'.repeat(pieceBytes)}`)
        assert.equal(isUtf8Stepwise(text), true, `${character} ${before} bytes before the end of a piece`)
        for (let damaged = 0; damaged < bytes; damaged += 1) {
          const wrong = Buffer.from(text)
          wrong[pieceBytes - before + damaged] = 0xff
          assert.equal(isUtf8Stepwise(wrong), false)
        }
        assert.equal(isUtf8Stepwise(text.subarray(0, pieceBytes - before + bytes)), true)
        if (bytes > 1) assert.equal(isUtf8Stepwise(text.subarray(0, pieceBytes - before + bytes - 1)), false)
      }
    }
    assert.equal(isUtf8Stepwise(Buffer.alloc(3 * pieceBytes, 0x80)), false)
    assert.equal(isUtf8Stepwise(Buffer.alloc(0)), true)
  })

  it('reports the position of a fault, and only the surrounding text', () => {
    const text = `{"a":[1,2,x],"b":"${'y'.repeat(1000)}"}`
    assert.throws(() => new JsonScanner(Buffer.from(text)).skip(), {
      message:
        'the request body is not valid JSON: byte 10 is not expected, in "{\\"a\\":[1,2,x],\\"b\\":\\"yy"',
    })
    assert.throws(() => new JsonScanner(Buffer.from('{"a":')).skip(), { message: /it ends in the middle/ })
    assert.throws(() => new JsonScanner(Buffer.alloc(0)), {
      message: 'the request body is empty, it must be JSON',
    })
    assert.throws(() => new JsonScanner(Buffer.from([0x22, 0xff, 0x22])), { message: /it is not UTF-8/ })
  })
})
