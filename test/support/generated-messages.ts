/**
 * The generated protobuf types, for tests of the layers that the product keeps apart from its client:
 * an independent reading of the wire to hold the hand-written codec against.
 */
export { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
export * from '../../src/client/generated/vectordb_pb.js'
