import { keepByteOrderMarks } from '../../src/client/byte-order-marks.ts'

/**
 * The generated protobuf types, for tests of layers that must not import the client. They are an independent
 * implementation of the wire format, to compare the hand-written codec with.
 */
export { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
export * from '../../src/messages/generated/vectordb_pb.js'

// Our decoders keep them.
keepByteOrderMarks()
