import { DatabaseError, invalid, wrongDimension } from '../base/errors.ts'
import type { Embeddings } from '../embeddings/embedder.ts'
import type { ApiContext, FieldNames } from './call.ts'
import { checkPayload, type PayloadInput } from './validation.ts'

/**
 * Texts in place of vectors. Everything else in a request is checked first, so that nothing is embedded for a request
 * that is refused anyway. Until a text is embedded, its vector is `unembedded`.
 */

/**
 * Returns the text to embed as a point's vector: `text`, or the content of a payload of the type Text. Returns
 * undefined if the point has a vector. Without embeddings it also returns undefined if the point has neither a text nor
 * a vector, which is then refused for the missing vector.
 *
 * @param path of the point in the request: '' or like `vectors[3].`
 */
export function textOfPoint(
  input: {
    readonly vector?: Float32Array | undefined
    readonly text?: string | undefined
    readonly payload?: PayloadInput | undefined
  },
  embeddings: Embeddings | undefined,
  path: string,
): string | undefined {
  const { vector, text } = input
  if (text !== undefined) return textBeside(text, vector, embeddings, path)
  if (vector !== undefined || embeddings === undefined) return undefined
  // Only type and content are needed here, so any time will do.
  const { contentType, content } = checkPayload(input.payload, `${path}payload`, 0)
  if (contentType === 'Text') return checkText(content, embeddings, `${path}payload.content`)
  throw invalid(`${path}vector is missing: of an ${contentType}, send a vector, or a text that describes it`)
}

/** Checks a text that was given in place of a vector. Returns undefined if none was given. */
export function textBeside(
  text: string | undefined,
  vector: Float32Array | undefined,
  embeddings: Embeddings | undefined,
  path: string,
  vectorField = 'vector',
): string | undefined {
  if (text === undefined) return undefined
  if (vector !== undefined) {
    throw invalid(`${path}text and ${path}${vectorField} are both given: send one of them`)
  }
  return checkText(text, embeddings, `${path}text`)
}

/** Returns the text to search near, if the query has one. */
export function textOfQuery(
  input: {
    readonly vector?: Float32Array | undefined
    readonly id?: string | undefined
    readonly text?: string | undefined
  },
  embeddings: Embeddings | undefined,
  path: string,
  { queryVector, nearId }: FieldNames,
): string | undefined {
  const { text, vector, id } = input
  if (text !== undefined && id !== undefined) {
    throw invalid(`${path}text and ${path}${nearId} are both given: send one of them`)
  }
  return textBeside(text, vector, embeddings, path, queryVector)
}

function checkText(text: string, embeddings: Embeddings | undefined, path: string): string {
  if (embeddings === undefined) {
    throw invalid(
      `${path} cannot be embedded: the service has no embeddings, set EMBEDDINGS_URL and EMBEDDINGS_MODEL, or send a vector`,
    )
  }
  if (text.trim() === '') throw invalid(`${path} is blank: it cannot be embedded, send a vector`)
  const bytes = Buffer.byteLength(text)
  if (bytes <= embeddings.maxTextBytes) return text
  throw invalid(
    `${path} has ${bytes} bytes, the most that is embedded is ${embeddings.maxTextBytes}: send a vector, or a shorter text`,
  )
}

/** A text in a request. */
export interface PlacedText {
  readonly text: string
  /** Its path in the request, for messages. */
  readonly path: string
}

/** Embeds texts and checks their vectors against the database. Returns for each text its vector or an error. */
export async function embedTexts(
  context: ApiContext,
  texts: readonly PlacedText[],
  signal: AbortSignal | undefined,
): Promise<readonly (Float32Array | DatabaseError)[]> {
  if (texts.length === 0) return []
  const { embeddings, database } = context
  // Without embeddings, `checkText` has refused every text.
  const embedded = await embeddings!.embed(
    texts.map(({ text }) => text),
    signal,
  )
  const { dimension } = database
  return embedded.map((embedding, index) => {
    const { path } = texts[index]!
    if (embedding instanceof DatabaseError) {
      return new DatabaseError(embedding.reason, `${path}: ${embedding.message}`, { cause: embedding })
    }
    if (dimension === undefined || embedding.length === dimension) return embedding
    return wrongEmbedding(path, context, embedding, dimension)
  })
}

/** The text of a query, which is at an index of a list. */
export type QueryText = PlacedText & { readonly at: number }

/**
 * Embeds the texts of queries.
 *
 * @param use called with the index and the vector of each query
 * @throws DatabaseError of the first text that could not be embedded
 */
export async function embedQueries(
  context: ApiContext,
  texts: readonly QueryText[],
  signal: AbortSignal | undefined,
  use: (at: number, vector: Float32Array) => void,
): Promise<void> {
  for (const [index, vector] of (await embedTexts(context, texts, signal)).entries()) {
    if (vector instanceof DatabaseError) throw vector
    use(texts[index]!.at, vector)
  }
}

/** The error for a text whose embedding differs in length from the stored vectors. */
export function wrongEmbedding(
  path: string,
  { embeddings }: ApiContext,
  { length }: Float32Array,
  dimension: number,
): DatabaseError {
  return wrongDimension(`${path}, embedded by ${embeddings!.model},`, length, dimension)
}

/** Embeds the only text of a request. */
export async function embedText(
  context: ApiContext,
  text: string,
  path: string,
  signal: AbortSignal | undefined,
): Promise<Float32Array> {
  const [embedded] = await embedTexts(context, [{ text, path }], signal)
  if (embedded instanceof DatabaseError) throw embedded
  return embedded!
}

/** The path in the request of a point's text. */
export function pathOfText(input: { readonly text?: string | undefined }, path: string): string {
  return input.text === undefined ? `${path}payload.content` : `${path}text`
}
