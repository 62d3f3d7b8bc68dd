import { isList, isMap } from './attribute-json.ts'
import type { AttributeValue } from './attributes.ts'
import type { Payload } from './point.ts'

/** Returns about how many bytes a payload takes in memory. In a request it takes about as many at most. */
export function payloadBytes({ content, attributes }: Pick<Payload, 'content' | 'attributes'>): number {
  return content.length * 2 + (attributes === undefined ? 0 : valueBytes(attributes))
}

export function valueBytes(value: AttributeValue): number {
  let bytes = valueOverheadBytes
  if (typeof value === 'string') bytes += value.length * 2
  else if (isMap(value)) for (const [name, each] of value) bytes += name.length * 2 + valueBytes(each)
  else if (isList(value)) for (const each of value) bytes += valueBytes(each)
  return bytes
}

/** The head of a string or an object as V8 allocates it, with its entry in a map. */
const valueOverheadBytes = 40
