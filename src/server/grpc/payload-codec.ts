import type { PayloadInput } from '../../api/payload-validation.ts'
import { checkDateTime } from '../../base/attribute-checks.ts'
import type { Attributes } from '../../base/attributes.ts'
import { contentTypes, type Payload } from '../../base/point.ts'
import { encodeAttributes, readAttributes } from './attribute-codec.ts'
import type { BackwardWriter } from './backward-writer.ts'
import { MergedMessage } from './merged-message.ts'
import { type WireReader, wireLength, wireVarint } from './wire.ts'

/** Payload on the wire. */

/** A payload whose occurrences are still being read. */
export interface PayloadParts {
  contentType: number
  content: string
  attributes?: MergedMessage
  expiresAtUs?: number | bigint
}

/** @param before the fields of an earlier occurrence of the message */
export function readPayload(message: WireReader, before: PayloadParts | undefined): PayloadParts {
  const parts = before ?? { contentType: 0, content: '' }
  while (message.next()) {
    if (message.is(1, wireVarint)) parts.contentType = message.int32()
    else if (message.is(2, wireLength)) parts.content = message.string()
    else if (message.is(3, wireLength)) {
      parts.attributes ??= new MergedMessage()
      parts.attributes.add(message.view())
    } else if (message.is(4, wireVarint)) parts.expiresAtUs = message.int64()
    else message.skip()
  }
  return parts
}

/** @param path of the point, with a trailing dot, or empty; only called for fields that few points have */
export function wholePayload(
  { contentType, content, attributes, expiresAtUs }: PayloadParts,
  path: () => string,
): PayloadInput {
  if (attributes === undefined && expiresAtUs === undefined) return { contentType, content }
  const at = `${path()}payload`
  return {
    contentType,
    content,
    attributes: attributes && readAttributes(attributes.reader(), `${at}.attributes`),
    expiresAtUs: expiresAtUs === undefined ? undefined : checkDateTime(expiresAtUs, `${at}.expires_at_us`).us,
  }
}

/** Writes the fields of a Payload. */
export function writePayload(writer: BackwardWriter, payload: Payload): void {
  const { contentType, content, attributes, expiresAtUs } = payload
  if (expiresAtUs !== undefined) writer.uint64(4, BigInt.asUintN(64, BigInt(expiresAtUs)))
  if (attributes !== undefined) writeAttributes(writer, attributes)
  writer.text(2, content)
  writer.uint64(1, BigInt(contentTypes.indexOf(contentType)))
}

/** Writes the field `attributes` of a Payload. */
export function writeAttributes(writer: BackwardWriter, attributes: Attributes): void {
  writer.bytes(3, encodeAttributes(attributes))
}
