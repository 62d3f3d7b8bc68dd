import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { InsertVectorRequestSchema } from '../messages/generated/vectordb_pb.js'
import { storedMessage } from './grpc-messages.ts'

describe('the vector of a message', () => {
  it('has the bytes that protobuf-es writes for its numbers, for any kind of array', () => {
    const components = [1.5, -0, 0.1, Number.NaN]
    const written = create(InsertVectorRequestSchema, { vector: { values: components } })
    const within = new Float32Array([7, ...components, 7]).subarray(1, 5)
    for (const vector of [components, new Float64Array(components), within]) {
      assert.deepEqual(bytesOf(vector), toBinary(InsertVectorRequestSchema, written))
    }
  })
})

function bytesOf(vector: ArrayLike<number>): Uint8Array {
  const { vector: message } = storedMessage({ vector, payload: { contentType: 'Image', content: '' } })
  return toBinary(InsertVectorRequestSchema, create(InsertVectorRequestSchema, { vector: message! }))
}
