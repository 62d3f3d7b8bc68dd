import { attributeToJson, type GeoPoint, numberToJson } from './attributes.ts'
import { type Bounds, boundNames, type Filter, operatorOf, type Test } from './filter.ts'
import { idBytes, idFromBytes } from './ids.ts'

/**
 * Returns a filter as JSON for people, much like the caller wrote it. Writing stops at the limit, so a filter with a
 * million values costs no more than its beginning.
 *
 * @param most the most characters; a longer text is shortened and ends with an ellipsis
 */
export function filterText(filter: Filter, most: number): string {
  let text = ''
  for (const part of partsOf(filter)) {
    text += part.slice(0, most + 1)
    if (text.length > most) return `${text.slice(0, most)}…`
  }
  return text
}

function* partsOf(filter: Filter): Generator<string, void> {
  if (filter.kind === 'condition') {
    yield `{${JSON.stringify(filter.path)}:`
    yield* partsOfTest(filter.test)
    yield '}'
  } else if (filter.kind === 'ids') {
    yield '{"$id":{"$in":['
    for (let at = 0; at < filter.ids.length; at += idBytes) {
      yield `${at > 0 ? ',' : ''}"${idFromBytes(filter.ids, at)}"`
    }
    yield ']}}'
  } else if (filter.kind === 'partitions') {
    yield `{"$partitions":"${Buffer.from(filter.partitions).toString('hex')}"}`
  } else if (filter.kind === 'not') {
    yield '{"$not":'
    yield* partsOf(filter.of)
    yield '}'
  } else if (filter.kind === 'all' && filter.of.length === 0) yield '{}'
  else {
    yield filter.kind === 'all' ? '{"$and":[' : '{"$or":['
    for (const [index, each] of filter.of.entries()) {
      if (index > 0) yield ','
      yield* partsOf(each)
    }
    yield ']}'
  }
}

function* partsOfTest(test: Test): Generator<string, void> {
  if ('bounds' in test) yield boundsText(test.bounds)
  else if (!('values' in test)) yield `{"$${operatorOf(test)}":${operandText(test)}}`
  else if (test.op === 'in' && test.values.length === 1) yield attributeToJson(test.values[0]!)
  else {
    yield `{"$${operatorOf(test)}":[`
    for (const [index, value] of test.values.entries())
      yield `${index > 0 ? ',' : ''}${attributeToJson(value)}`
    yield ']}'
  }
}

/** The operand of a test that has neither values nor bounds, as JSON. */
export function operandText(test: Exclude<Test, { values: unknown } | { bounds: unknown }>): string {
  if ('text' in test) return JSON.stringify(test.text)
  if ('center' in test)
    return `${geoText(test.center).slice(0, -1)},"radius_m":${numberToJson(test.radiusM)}}`
  if ('southWest' in test) {
    return `{"south_west":${geoText(test.southWest)},"north_east":${geoText(test.northEast)}}`
  }
  return 'true'
}

function geoText({ lat, lon }: GeoPoint): string {
  return `{"lat":${numberToJson(lat)},"lon":${numberToJson(lon)}}`
}

export function boundsText(bounds: Bounds): string {
  const parts = boundNames
    .filter((name) => bounds[name] !== undefined)
    .map((name) => `"$${name}":${attributeToJson(bounds[name]!)}`)
  return `{${parts.join(',')}}`
}
