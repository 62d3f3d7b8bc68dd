import { waitFor } from '../support/until.ts'
import type { History, Read, Write } from './history.ts'

export interface Target {
  readonly name: string
  readonly url: string
}

/** Clients that write to and read from random nodes, and record everything. */
export class Workload {
  readonly #targets: readonly Target[]
  readonly #random: () => number
  #stop = new AbortController()
  readonly #sizes = new Map<string, number>()
  readonly #writes: Write[] = []
  readonly #reads: Read[] = []
  /** Groups that may be stored, with the position of their insert if it is known. */
  readonly #groups: {
    readonly group: string
    readonly position: string | undefined
    readonly vector: readonly number[]
    readonly id?: string
  }[] = []
  #running: Promise<unknown> | undefined
  #acknowledged = 0
  #latestReads = 0
  #readsMade = 0
  /** How often the history was cleared. */
  #round = 0

  constructor(targets: readonly Target[], random: () => number) {
    this.#targets = targets
    this.#random = random
  }

  get history(): History {
    return { sizes: this.#sizes, writes: this.#writes, reads: this.#reads }
  }

  /** Number of acknowledged inserts, including those of cleared histories. */
  get acknowledged(): number {
    return this.#acknowledged
  }

  get latestReads(): number {
    return this.#latestReads
  }

  get readsMade(): number {
    return this.#readsMade
  }

  start(): void {
    this.#stop = new AbortController()
    const clients = [
      ...Array.from({ length: writers }, (_, writer) => this.#write(writer)),
      ...Array.from({ length: readers }, (_, reader) => this.#read(levels[reader % levels.length]!)),
    ]
    this.#running = Promise.all(clients)
  }

  /** Deletes all points and clears the history. The clients must be stopped. */
  async forget(): Promise<void> {
    for (let more = true; more; ) {
      const answer = await this.#call('POST', '/points/delete', { filter: { group: { $exists: true } } })
      if (answer.status === 400) throw new Error('the filter for all points was refused')
      if (answer.status === 200) more = (answer.body as { more: boolean }).more
      else await pause(100)
    }
    this.#round += 1
    this.#groups.length = 0
    this.#writes.length = 0
    this.#reads.length = 0
    this.#sizes.clear()
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #write(writer: number): Promise<void> {
    for (let number = 0; !this.#stop.signal.aborted; number++) {
      const size = number % 3 === 0 ? 1 : 3
      const own = `g${this.#round}-${writer}-`
      await this.#insert(own + number, size)
      const single = this.#groups.find(({ group, id }) => id !== undefined && group.startsWith(own))
      if (number % 7 === 6 && single !== undefined) await this.#delete(single.group, single.id!)
    }
  }

  async #insert(group: string, size: number): Promise<void> {
    // The points of a group are nearer to each other than to any other point.
    const vector = Array.from({ length: 4 }, () => this.#random())
    const vectors = Array.from({ length: size }, (_, at) => ({
      vector: vector.with(0, vector[0]! + at * nearness),
      payload: { content_type: 'Text', content: group, attributes: { group } },
    }))
    this.#sizes.set(group, size)
    const startMs = performance.now()
    const send = async (headers: Readonly<Record<string, string>>) =>
      await this.#call('POST', '/points/batch', { vectors }, headers)
    const isKeyed = this.#random() < 0.5
    const key = isKeyed ? { 'idempotency-key': group } : {}
    let answer = await send(key)
    let outcome = outcomeOf(answer.status)
    if (isKeyed && outcome === 'unknown' && !this.#stop.signal.aborted) {
      // Retry at any node: the key ensures that the group is stored once.
      answer = await send(key)
      outcome = outcomeOf(answer.status) === 'ok' ? 'ok' : 'unknown'
    }
    const [id] = answer.status === 201 ? (answer.body as { point_ids: string[] }).point_ids : []
    this.#groups.push({
      group,
      position: answer.position,
      vector,
      ...(size === 1 && id !== undefined ? { id } : {}),
    })
    this.#note({ kind: 'insert', group, startMs, outcome })
    if (answer.status !== 201) await pause(50)
  }

  async #delete(group: string, id: string): Promise<void> {
    const startMs = performance.now()
    // Record it before sending: a read may see the deletion before its answer arrives.
    const index = this.#writes.length
    this.#note({ kind: 'delete', group, startMs, outcome: 'unknown' })
    const at = this.#groups.findIndex((each) => each.group === group)
    this.#groups[at] = { group, position: undefined, vector: this.#groups[at]!.vector }
    const { status } = await this.#call('DELETE', `/points/${id}`)
    this.#writes[index] = {
      kind: 'delete',
      group,
      startMs,
      endMs: performance.now(),
      outcome: status === 204 ? 'ok' : 'unknown',
    }
  }

  async #read(consistency: Read['consistency']): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const recent = this.#groups.slice(-20)
      const known = recent[Math.floor(this.#random() * recent.length)]
      if (known === undefined) {
        await pause(20)
        continue
      }
      const isAfterInsert = consistency === 'session' && known.position !== undefined
      // Leave processor time for nodes that start.
      await pause(betweenReadsMs)
      const startMs = performance.now()
      const found = await this.#find(known, {
        'vicinal-consistency': consistency,
        ...(isAfterInsert ? { 'vicinal-position': known.position! } : {}),
      })
      if (found === undefined) {
        // A refusal is not a result. Wait, because the cluster may be electing a leader.
        await pause(20)
        continue
      }
      const { group } = known
      this.#readsMade += 1
      if (consistency === 'latest') this.#latestReads += 1
      this.#reads.push({ group, consistency, startMs, endMs: performance.now(), ...found, isAfterInsert })
    }
  }

  /** How many points of a group a count or a nearby search finds; undefined without an answer. */
  async #find(
    { group, vector }: { readonly group: string; readonly vector: readonly number[] },
    headers: Readonly<Record<string, string>>,
  ): Promise<Pick<Read, 'by' | 'found'> | undefined> {
    if (this.#random() < 0.5) {
      const { status, body } = await this.#call('POST', '/points/count', { filter: { group } }, headers)
      return status === 200 ? { by: 'count', found: (body as { count: number }).count } : undefined
    }
    const query = searchOf(vector, this.#sizes.get(group)!)
    const { status, body } = await this.#call('POST', '/points/search', query, headers)
    if (status !== 200) return undefined
    const own = (body as Found).hits.filter(({ payload }) => payload.content === group)
    return { by: 'search', found: own.length }
  }

  #note(write: Omit<Write, 'endMs'>): void {
    this.#writes.push({ ...write, endMs: performance.now() })
    if (write.kind === 'insert' && write.outcome === 'ok') this.#acknowledged += 1
  }

  async #call(
    method: string,
    path: string,
    body?: unknown,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly status: number; readonly body?: unknown; readonly position: string | undefined }> {
    const { url } = this.#targets[Math.floor(this.#random() * this.#targets.length)]!
    const isRead = path === '/points/count' || path === '/points/search'
    const headers = { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...more }
    try {
      const response = await fetch(url + path, {
        method,
        headers,
        signal: AbortSignal.timeout(isRead ? readMs : writeMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      const position = response.ok ? (response.headers.get('vicinal-position') ?? undefined) : undefined
      return {
        status: response.status,
        position,
        ...(response.status === 204 || !response.ok ? {} : { body: JSON.parse(text) }),
      }
    } catch {
      // The node was killed or stopped, so the outcome is unknown.
      return { status: 0, position: undefined }
    }
  }
}

/** A point in the answer of a node. */
export interface StoredPoint {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: { readonly content: string }
}

/** All points that a node lists. */
export async function pointsOf(target: Pick<Target, 'url'>): Promise<StoredPoint[]> {
  const all: StoredPoint[] = []
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const { points, next_cursor } = await answerOf<{ points: StoredPoint[]; next_cursor?: string }>(
      target,
      '/points/list',
      {
        limit: 1000,
        include: { payload: true, vector: true },
        ...(cursor === undefined ? {} : { cursor }),
      },
    )
    all.push(...points)
    cursor = next_cursor
  }
  return all
}

/** The number of points of each group. */
export function groupsOf(points: readonly StoredPoint[]): Map<string, number> {
  const groups = new Map<string, number>()
  for (const { payload } of points) groups.set(payload.content, (groups.get(payload.content) ?? 0) + 1)
  return groups
}

/** The number of points of each group on a node. */
export async function contentOf(target: Pick<Target, 'url'>): Promise<Map<string, number>> {
  return groupsOf(await pointsOf(target))
}

/** The ids that an exact search on a node finds. */
export async function nearestTo(
  target: Pick<Target, 'url'>,
  vector: readonly number[],
  limit: number,
): Promise<readonly string[]> {
  return (await answerOf<Found>(target, '/points/search', searchOf(vector, limit))).results
}

interface Found {
  readonly results: readonly string[]
  readonly hits: readonly { readonly payload: { readonly content: string } }[]
}

function searchOf(vector: readonly number[], limit: number): object {
  return { vector, limit, similarity: 'Euclidean', exact: true, include: { payload: true } }
}

/** Sends a read of `latest`. Retries, because the node may not know yet that another one has just died. */
async function answerOf<Answer>({ url }: Pick<Target, 'url'>, path: string, body: object): Promise<Answer> {
  return await waitFor(async () => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'vicinal-consistency': 'latest' },
      body: JSON.stringify(body),
    })
    if (response.status === 503) return undefined
    if (!response.ok) throw new Error(`${path} of ${url}: ${response.status} ${await response.text()}`)
    return (await response.json()) as Answer
  }, `${path} of ${url} is answered`)
}

const betweenReadsMs = 10
/** Clients of each kind. A reader asks for one level: one that waits for the log must not hold up the others. */
const writers = 4
const readers = 6
const levels = ['session', 'latest', 'available'] as const
/** Distance between neighbouring points of a group. */
const nearness = 1e-6
/** Timeout of a read, after which the client chooses a random node again. */
const readMs = 2_000
const writeMs = 20_000

function outcomeOf(status: number): Write['outcome'] {
  if (status === 201) return 'ok'
  return status === 507 || (status >= 400 && status < 500) ? 'refused' : 'unknown'
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
