import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire'

/**
 * The generated protobuf types, for tests of layers that must not import the client. They are an independent
 * implementation of the wire format, to compare the hand-written codec with.
 */
export { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
export * from '../../src/client/generated/vectordb_pb.js'

keepByteOrderMarks()

/** As our client does: a TextDecoder drops U+FEFF at the beginning of a text, and our decoders keep it. */
function keepByteOrderMarks(): void {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
  configureTextEncoding({
    ...getTextEncoding(),
    decodeUtf8: (bytes, isStrict) => (isStrict ? strict : decoder).decode(bytes),
  })
}
