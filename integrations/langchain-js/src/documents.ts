import { Document, type DocumentInterface } from '@langchain/core/documents'
import {
  type AttributesOutput,
  attributesOfMetadata,
  DatabaseError,
  type Hit,
  type PointToInsert,
  uuidOf,
} from 'vicinal-client'

/** The attribute with the document's id if that differs from the point's id. The Python package uses the same name. */
export const idAttribute = 'langchain_id'

/** Returns the id of each document: the given one, or the document's own, or a new one. */
export function idsOf(
  documents: readonly DocumentInterface[],
  given: readonly string[] | undefined,
): string[] {
  checkCount('ids', given, documents)
  return documents.map((document, index) => given?.[index] ?? document.id ?? crypto.randomUUID())
}

/**
 * Converts documents to points: the text is the content, and metadata are attributes, converted by
 * `attributesOfMetadata`. Existing ids are replaced. If several documents have the same id, only the last one is
 * returned, because a request accepts only one point per id.
 */
export function pointsOf(
  vectors: readonly (readonly number[])[],
  documents: readonly DocumentInterface[],
  ids: readonly string[],
): PointToInsert[] {
  checkCount('vectors', vectors, documents)
  const points = new Map<string, PointToInsert>()
  documents.forEach(({ pageContent, metadata }, index) => {
    const id = uuidOf(ids[index]!)
    const own = id === ids[index] ? {} : { [idAttribute]: ids[index] }
    const attributes = { ...attributesOfMetadata(metadata), ...own }
    const payload = { contentType: 'Text', content: pageContent, attributes } as const
    points.set(id, { id, vector: vectors[index]!, payload, onConflict: 'replace' })
  })
  return [...points.values()]
}

/** Returns the document of a point. */
export function documentOf({ id, payload }: Hit): Document {
  const attributes: AttributesOutput = payload?.attributes ?? {}
  const { [idAttribute]: given = id, ...metadata } = attributes
  return new Document({ pageContent: payload?.content ?? '', metadata, id: String(given) })
}

function checkCount(
  name: string,
  items: readonly unknown[] | undefined,
  documents: readonly DocumentInterface[],
): void {
  if (items === undefined || items.length === documents.length) return
  throw new DatabaseError('invalid_argument', `${documents.length} documents have ${items.length} ${name}`)
}
