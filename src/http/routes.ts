import type { OperationName, OperationTypes } from '../api/operations.ts'
import { IdTexts } from '../base/id-lists.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { encodeIdLists, encodeIds, type JsonAnswer } from './json-answers.ts'
import { decodePoint, decodePoints, decodeQueries, decodeQuery, encodePoint } from './json-codec.ts'

/** How an operation is spelled in HTTP. */
export interface Route<Name extends OperationName> {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly status: number
  /**
   * @param body what came with the request, empty for methods that take none
   * @param notes takes the names of fields that are ignored
   * @param id the path's id
   */
  readonly decode: (body: Buffer, notes: FieldNotes, id: string) => OperationTypes[Name]['input']
  /** JSON, a promise where there is much of it; undefined for an empty body. */
  readonly encode: (output: OperationTypes[Name]['output']) => JsonAnswer | Promise<JsonAnswer> | undefined
}

export const routes: { readonly [Name in OperationName]: Route<Name> } = {
  InsertVector: {
    method: 'POST',
    path: '/points',
    status: 201,
    decode: decodePoint,
    encode: (id) => JSON.stringify({ point_id: id }),
  },
  InsertVectorsBatch: {
    method: 'POST',
    path: '/points/batch',
    status: 201,
    decode: decodePoints,
    encode: (ids) => encodeIds('point_ids', new IdTexts(ids)),
  },
  GetPoint: {
    method: 'GET',
    path: '/points/:id',
    status: 200,
    decode: (_body, _notes, id) => ({ id }),
    encode: encodePoint,
  },
  DeletePoint: {
    method: 'DELETE',
    path: '/points/:id',
    status: 204,
    decode: (_body, _notes, id) => ({ id }),
    encode: () => undefined,
  },
  SearchPoints: {
    method: 'POST',
    path: '/points/search',
    status: 200,
    decode: decodeQuery,
    encode: (ids) => encodeIds('results', ids),
  },
  SearchPointsBatch: {
    method: 'POST',
    path: '/points/search/batch',
    status: 200,
    decode: decodeQueries,
    encode: (lists) => encodeIdLists('results', lists),
  },
}
