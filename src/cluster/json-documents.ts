/** A value as the bytes of a shared document. */
export function toJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** A value from the bytes of a shared document. */
export function fromJson<Value>(bytes: Uint8Array): Value {
  return JSON.parse(Buffer.from(bytes).toString()) as Value
}
