import fc from 'fast-check'
import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../../src/base/attributes.ts'

/** Valid attributes; some have names that JavaScript itself uses. */

const name = fc.oneof(
  fc.constantFrom('a', 'b', 'price', '__proto__', 'constructor', 'toString', 'hasOwnProperty', '0', 'é', ' '),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 5 }).filter((text) => /^[^$.][^.]*$/su.test(text)),
)

const number = fc
  .oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.maxSafeInteger(),
    fc.constantFrom(2 ** 53, 2 ** 60, 1e21),
  )
  .map((value) => value + 0)

const scalar: fc.Arbitrary<AttributeValue> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  number,
  fc.boolean(),
  fc.integer({ min: -(2 ** 50), max: 2 ** 50 }).map((us) => new DateTime(us)),
  fc
    .tuple(fc.double({ min: -90, max: 90, noNaN: true }), fc.double({ min: -180, max: 180, noNaN: true }))
    .map(([lat, lon]) => new GeoPoint(lat + 0, lon + 0)),
)

const mapOf = (value: fc.Arbitrary<AttributeValue>, minLength: number): fc.Arbitrary<Attributes> =>
  fc.array(fc.tuple(name, value), { minLength, maxLength: 4 }).map((entries) => new Map(entries))

const values = fc.letrec<{ value: AttributeValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    mapOf(tie('value'), 0),
  ),
})).value

export const anyAttributes: fc.Arbitrary<Attributes> = mapOf(values, 1)
