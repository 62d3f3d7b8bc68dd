import type { SharedDocuments } from './commit-log.ts'

/** A value as the bytes of a shared document. */
export function toJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** A value from the bytes of a shared document. */
export function fromJson<Value>(bytes: Uint8Array): Value {
  return JSON.parse(Buffer.from(bytes).toString()) as Value
}

/** What the live nodes have announced, by name. */
export async function announcedIn<Said>(
  documents: Pick<SharedDocuments, 'announced'>,
): Promise<ReadonlyMap<string, Said>> {
  const announced = await documents.announced()
  return new Map([...announced].map(([node, value]) => [node, fromJson<Said>(value)]))
}
