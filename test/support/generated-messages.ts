import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire'

/**
 * The generated protobuf types, for tests of layers that must not import the client. They are an independent
 * implementation of the wire format, to compare ours with.
 */
export { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
export * from '../../src/messages/generated/vectordb_pb.js'

// The decoders of the library drop U+FEFF at the beginning of a text; ours keep it.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
configureTextEncoding({
  ...getTextEncoding(),
  decodeUtf8: (bytes, isStrict) => (isStrict ? strict : decoder).decode(bytes),
})
