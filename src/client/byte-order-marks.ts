import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire'

/**
 * Makes protobuf-es keep U+FEFF at the beginning of a text, in the whole process. By default, a TextDecoder drops it; the
 * text would differ from the stored one.
 */
export function keepByteOrderMarks(): void {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
  configureTextEncoding({
    ...getTextEncoding(),
    decodeUtf8: (bytes, isStrict) => (isStrict ? strict : decoder).decode(bytes),
  })
}
