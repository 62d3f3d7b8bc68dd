import { attributesFromJson, attributesToJson } from '../base/attribute-json.ts'
import { idBytes } from '../base/ids.ts'
import { contentTypes, type Payload } from '../base/point.ts'
import type { PackedReader, PackedWriter } from './packed-bytes.ts'

/** Writes a payload, with its attributes as canonical JSON, as on disk. */
export function writePayload(to: PackedWriter, payload: Payload): void {
  to.byte(contentTypes.indexOf(payload.contentType))
  to.text(payload.content)
  writeOptional(to, payload.attributes, (attributes) => to.text(attributesToJson(attributes)))
  writeOptional(to, payload.expiresAtUs, (us) => to.float64(us))
}

export function readPayload(from: PackedReader): Payload {
  const contentType = nameOf(contentTypes, from.byte())
  const content = from.text()
  const attributes = readOptional(from, () => attributesFromJson(from.text()))
  const expiresAtUs = readOptional(from, () => from.float64())
  return {
    ...{ contentType, content },
    ...(attributes && { attributes }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  }
}

export function writeOptional<Value>(
  to: PackedWriter,
  value: Value | undefined,
  write: (value: Value) => void,
): void {
  to.byte(value === undefined ? 0 : 1)
  if (value !== undefined) write(value)
}

export function readOptional<Value>(from: PackedReader, read: () => Value): Value | undefined {
  return from.byte() === 0 ? undefined : read()
}

/** @throws RangeError */
export function nameOf<Name>(names: readonly Name[], number: number): Name {
  const name = names[number]
  if (name === undefined) throw new RangeError(`there is no number ${number} among ${names.join(', ')}`)
  return name
}

export function writeIds(to: PackedWriter, ids: readonly string[]): void {
  to.count(ids.length)
  for (const id of ids) to.id(id)
}

/** @throws RangeError when there are too few bytes for that many ids */
export function readIds(from: PackedReader): string[] {
  return Array.from({ length: from.length(idBytes) }, () => from.id())
}

/** A count for each name. */
export function writeCounts(to: PackedWriter, counts: ReadonlyMap<string, number>): void {
  to.count(counts.size)
  for (const [name, count] of counts) {
    to.text(name)
    to.count(count)
  }
}

/** @throws RangeError when there are too few bytes for that many counts */
export function readCounts(from: PackedReader): ReadonlyMap<string, number> {
  return new Map(Array.from({ length: from.length(2) }, () => [from.text(), from.count()] as const))
}
