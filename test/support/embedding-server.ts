import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request to an embedding endpoint, or to a reranking one, as received. */
export interface EmbeddingRequest {
  readonly path: string
  readonly authorization: string | undefined
  readonly model: string
  readonly texts: readonly string[]
  /** Only of a reranking endpoint. */
  readonly query: string | undefined
  /** Whether the caller has given up. */
  readonly isClosed: () => boolean
  /** Resolves when the connection of the request is closed. */
  readonly closed: Promise<unknown>
}

/** The server's answer to a request; undefined: no answer. */
export interface EmbeddingAnswer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON unless it is a string. */
  readonly body: unknown
}

export type Respond = (
  request: EmbeddingRequest,
) => EmbeddingAnswer | undefined | Promise<EmbeddingAnswer | undefined>

/** An endpoint whose answers the test controls, for behaviour that a real endpoint cannot be made to show. */
export interface EmbeddingServer extends AsyncDisposable {
  /** For EMBEDDINGS_URL. */
  readonly url: string
  readonly host: string
  readonly requests: EmbeddingRequest[]
  respond: Respond
}

export async function startEmbeddingServer(respond: Respond = lettersOf): Promise<EmbeddingServer> {
  const requests: EmbeddingRequest[] = []
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await bodyOf(request)) as {
      readonly model: string
      readonly input?: string[]
      readonly documents?: string[]
      readonly query?: string
    }
    const noted = {
      path: request.url!,
      authorization: request.headers.authorization,
      model: body.model,
      texts: body.input ?? body.documents ?? [],
      query: body.query,
      isClosed: () => response.destroyed,
      closed: once(response, 'close'),
    }
    requests.push(noted)
    const answer = await state.respond(noted)
    if (answer !== undefined) send(response, answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const state: EmbeddingServer = {
    url: `http://${host}/v1`,
    host,
    requests,
    respond,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return state
}

/** Embeds a text by counting letters: a, b and c are the first three components, and a constant is the last. */
export function vectorOf(text: string): number[] {
  return [...'abc'].map((letter) => text.split(letter).length - 1).concat(1)
}

/** The answer of a working endpoint. */
export function lettersOf({ texts }: Pick<EmbeddingRequest, 'texts'>): EmbeddingAnswer {
  return answerOf(texts.map(vectorOf))
}

export function answerOf(vectors: readonly (readonly unknown[])[]): EmbeddingAnswer {
  const data = vectors.map((embedding, index) => ({ object: 'embedding', index, embedding }))
  return { body: { object: 'list', data, model: 'letters', usage: { prompt_tokens: 1, total_tokens: 1 } } }
}

/** An error in OpenAI's format. */
export function failure(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): EmbeddingAnswer {
  return { status, headers, body: { error: { message, type: 'error' } } }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

function send(response: ServerResponse, { status = 200, headers = {}, body }: EmbeddingAnswer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
