import { attributeToJson } from './attribute-json.ts'
import type { Scalar } from './attributes.ts'
import type { Bounds, Filter, Test } from './filter.ts'
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
  if (test.op === 'in' && test.values.length === 1) yield attributeToJson(test.values[0]!)
  else if (test.op === 'in') yield* list('$in', test.values)
  else if (test.op === 'contains') yield* list('$all', test.values)
  else if (test.op === 'range') yield boundsText(test.bounds)
  else if (test.op === 'exists') yield '{"$exists":true}'
  else if (test.op === 'prefix') yield `{"$prefix":${JSON.stringify(test.prefix)}}`
  else if (test.op === 'near') {
    const { lat, lon } = test.center
    yield `{"$near":{"lat":${lat},"lon":${lon},"radius_m":${test.radiusM}}}`
  } else {
    const [low, high] = [test.southWest, test.northEast].map(({ lat, lon }) => `{"lat":${lat},"lon":${lon}}`)
    yield `{"$box":{"south_west":${low},"north_east":${high}}}`
  }
}

function* list(operator: string, values: readonly Scalar[]): Generator<string, void> {
  yield `{"${operator}":[`
  for (const [index, value] of values.entries()) yield `${index > 0 ? ',' : ''}${attributeToJson(value)}`
  yield ']}'
}

function boundsText(bounds: Bounds): string {
  const parts = (['gt', 'gte', 'lt', 'lte'] as const)
    .filter((name) => bounds[name] !== undefined)
    .map((name) => `"$${name}":${attributeToJson(bounds[name]!)}`)
  return `{${parts.join(',')}}`
}
