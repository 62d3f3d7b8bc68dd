import { assert, DatabaseError } from '../base/errors.ts'
import type { ReplicaCatalog, ReplicaSource } from './replica-transfer.ts'

export interface HttpReplicaOptions {
  readonly node: string
  /** As the node announces it: host and port, or a URL. */
  readonly address: string
  /** Undefined when HTTP requires none. */
  readonly apiKey: string | undefined
  /** How long a node may send nothing before it is given up; short in tests. */
  readonly silenceMs?: number | undefined
}

/** Fetches the data of another node over its HTTP interface. */
export class HttpReplicaSource implements ReplicaSource {
  readonly name: string
  readonly #options: HttpReplicaOptions

  constructor(options: HttpReplicaOptions) {
    this.name = options.node
    this.#options = options
  }

  async catalog(signal: AbortSignal): Promise<ReplicaCatalog> {
    const watch = new Watch(signal, this.#silenceMs)
    const response = await this.#call('GET', '/cluster/replica', watch)
    const catalog = (await response.json()) as ReplicaCatalog
    watch.end()
    return catalog
  }

  async collection(
    name: string,
    position: number,
    { signal, hasPoints }: Parameters<ReplicaSource['collection']>[2],
  ): Promise<AsyncIterable<Uint8Array> | undefined> {
    assert(hasPoints, 'a node that may hold only some of the points has a link')
    const watch = new Watch(signal, this.#silenceMs)
    const path = `/cluster/replica/${encodeURIComponent(name)}?position=${position}`
    const response = await this.#call('POST', path, watch)
    if (response.status !== 404) return watched(response, watch)
    watch.end()
    await response.body?.cancel()
    return undefined
  }

  get #silenceMs(): number {
    return this.#options.silenceMs ?? usualSilenceMs
  }

  async #call(method: 'GET' | 'POST', path: string, watch: Watch): Promise<Response> {
    const { address, apiKey, node } = this.#options
    const url = (/^https?:/.test(address) ? address : `http://${address}`) + path
    const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
    let response: Response
    try {
      response = await fetch(url, { method, headers, signal: watch.signal })
    } catch (cause) {
      watch.end()
      throw new DatabaseError('not_ready', `${node} does not answer at ${url}`, { cause })
    }
    watch.heard()
    if (response.ok || (response.status === 404 && method === 'POST')) return response
    const said = (await response.text()).slice(0, 500)
    watch.end()
    throw new DatabaseError('not_ready', `${node} answered ${response.status} at ${url}: ${said}`)
  }
}

async function* watched(response: Response, watch: Watch): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of response.body!) {
      watch.heard()
      yield chunk
    }
  } finally {
    watch.end()
  }
}

/** Aborts when nothing arrives for a while. The receiver's own work counts too, but takes less. */
class Watch {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly signal: AbortSignal

  constructor(signal: AbortSignal, silenceMs: number) {
    this.#timer = setTimeout(() => this.#controller.abort(), silenceMs)
    this.signal = AbortSignal.any([signal, this.#controller.signal])
  }

  heard(): void {
    this.#timer.refresh()
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}

const usualSilenceMs = 60_000
