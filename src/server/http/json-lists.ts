import type { CountPointsInput } from '../../api/count-points.ts'
import type { FacetPointsInput, Facets } from '../../api/facet-points.ts'
import type { ListPointsInput } from '../../api/list-points.ts'
import { attributeToJson } from '../../base/attribute-json.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'
import { inTurns } from '../../base/turns.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { readFilterInTurns } from './json-filter.ts'
import { readInclude, readPaths } from './json-include.ts'
import { JsonText } from './json-text.ts'
import { membersAt, readNumber, readString, skipUnknown, type Writable, wholeInTurns } from './json-values.ts'

/** Lists, counts and facets as JSON, except the points in lists (see json-details.ts). */

export function decodeList(body: Buffer, notes: FieldNotes): ListPointsInput | Promise<ListPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<ListPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilterInTurns(json, 'filter')
        else if (key === 'limit') input.limit = readNumber(json, 'limit')
        else if (key === 'cursor') input.cursor = readString(json, 'cursor')
        else if (key === 'include') input.include = yield* readInclude(json, 'include')
        else yield* skipUnknown(json, '', key, notes, ['filter', 'limit', 'cursor', 'include'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function decodeCount(body: Buffer, notes: FieldNotes): CountPointsInput | Promise<CountPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<CountPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilterInTurns(json, 'filter')
        else yield* skipUnknown(json, '', key, notes, ['filter'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function decodeFacets(body: Buffer, notes: FieldNotes): FacetPointsInput | Promise<FacetPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<FacetPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilterInTurns(json, 'filter')
        else if (key === 'paths') input.paths = readPaths(json, 'paths')
        else if (key === 'limit') input.limit = readNumber(json, 'limit')
        else yield* skipUnknown(json, '', key, notes, ['filter', 'paths', 'limit'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function encodeCount(count: number): string {
  return JSON.stringify({ count })
}

export function encodeFacets(facets: Facets, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(facetSteps(facets, room))
}

function* facetSteps(facets: Facets, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const json = new JsonText('{"facets":{', room)
  for (const [number, [path, counts]] of [...facets].entries()) {
    json.add(`${number > 0 ? ',' : ''}${JSON.stringify(path)}:[`)
    for (const [index, { value, count }] of counts.entries()) {
      const entry = `{"value":${attributeToJson(value)},"count":${count}}`
      if (json.add(`${index > 0 ? ',' : ''}${entry}`)) yield
    }
    json.add(']')
  }
  json.add('}}')
  return json.finish()
}
