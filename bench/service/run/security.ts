import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hashOfKey } from '../../../src/base/api-key.ts'
import {
  createGrpcClient,
  createHttpClient,
  type Filter,
  type VectorClient,
} from '../../../src/client/index.ts'
import { run, ServerProcess, temporaryDirectory } from '../../../test/support/process.ts'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'
import { median } from '../../shared/median.ts'
import { shown } from '../../shared/table.ts'

export const securityTitle = 'Security: processor time of single searches'

export const securityHeadings: readonly string[] = ['compared', 'transport', 'us a search', 'us with', 'more']

const keys = { free: 'read free free-key-for-benchmarks', bound: 'read bound bound-key-for-benchmarks' }
const dimension = 128
/** Short, so that both sides see the same moments of a busy machine. */
const block = 10

/**
 * Compares the processor time that the service takes for a search: with a filter, whose bitmap is cached, and without;
 * with the filter bound to the key and in the query; with TLS and in plaintext. Half of the points match. One caller sends one search at a time. Blocks of
 * both sides take turns, each first in every other round, and their medians are compared: what else the machine does
 * concerns both sides.
 */
export async function securityCurve(
  { rows, rounds }: { readonly rows: number; readonly rounds: number },
  onRow: (row: readonly string[]) => void,
): Promise<void> {
  await using folder = await temporaryDirectory()
  const certs = join(folder.path, 'certs')
  await run(['tls', 'self-signed', certs])
  const file = join(folder.path, 'keys')
  const filter = '{"filter":{"tenant":"a"}}'
  const lines = [keyLine(keys.free), `${keyLine(keys.bound)} ${filter}`, 'write all all-of-it-for-benchmarks']
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  const settings = { API_KEYS_FILE: file, LOG_LEVEL: 'info' }
  await using plain = await ServerProcess.start(join(folder.path, 'plain'), settings)
  await using secure = await ServerProcess.start(join(folder.path, 'secure'), {
    ...settings,
    CERTS_DIR: certs,
  })
  const ca = readFileSync(join(certs, 'server', 'tls.crt'), 'utf8')
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  const random = new GaussianRandom(1)
  const vectors = Array.from({ length: rows }, () => vectorOf(random))
  for (const server of [plain, secure]) await fill(server, vectors)
  const queries = Array.from({ length: 50 * block }, () => vectorOf(random))
  for (const transport of ['http', 'grpc'] as const) {
    const sideOf = (server: ServerProcess, key: keyof typeof keys): Side => {
      const tls = server === secure ? { ca } : false
      const apiKey = keys[key].split(' ')[2]!
      const client =
        transport === 'http'
          ? createHttpClient({ baseUrl: server.httpUrl, apiKey })
          : createGrpcClient({ address: server.grpcAddress, apiKey, tls })
      return { client, pid: server.command.child.pid! }
    }
    const free = sideOf(plain, 'free')
    const asked = { ...free, filter: { tenant: 'a' } }
    const bound = sideOf(plain, 'bound')
    const withTls = sideOf(secure, 'free')
    for (const [compared, one, other] of [
      ['a filter, to none', free, asked],
      ['of the key, to of the query', asked, bound],
      ['TLS, to plaintext', free, withTls],
    ] as const) {
      onRow([compared, transport, ...(await compare(one, other, queries, rounds))])
    }
    for (const { client } of [free, bound, withTls]) await client.close()
  }
}

function keyLine(line: string): string {
  const [role, name, key] = line.split(' ')
  return `${role} ${name} sha256:${hashOfKey(key!)}`
}

function vectorOf(random: GaussianRandom): number[] {
  return Array.from({ length: dimension }, () => random.next())
}

interface Side {
  readonly client: VectorClient
  readonly filter?: Filter
  readonly pid: number
}

async function fill(server: ServerProcess, vectors: readonly number[][]): Promise<void> {
  const client = createHttpClient({ baseUrl: server.httpUrl, apiKey: 'all-of-it-for-benchmarks' })
  const payloadOf = (at: number) =>
    ({ contentType: 'Text', content: 'a point', attributes: { tenant: at % 2 === 0 ? 'a' : 'b' } }) as const
  for (let at = 0; at < vectors.length; at += 1000) {
    const batch = vectors.slice(at, at + 1000)
    await client.insertBatch(batch.map((vector, index) => ({ vector, payload: payloadOf(index) })))
  }
  await client.search({ vector: vectors[0]!, metric: 'Cosine', limit: 10 })
  for (;;) {
    const { waiting, isSettling } = await client.stats()
    if (waiting === 0 && !isSettling) return
    await sleep(200)
  }
}

async function compare(
  one: Side,
  other: Side,
  queries: readonly number[][],
  rounds: number,
): Promise<readonly string[]> {
  const spent: [number[], number[]] = [[], []]
  for (let round = -warmupRounds; round < rounds; round += 1) {
    for (const at of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const from = (Math.abs(round) * block) % queries.length
      const seconds = await secondsOf([one, other][at]!, queries.slice(from, from + block))
      if (round >= 0) spent[at].push(seconds / block)
    }
  }
  const [without, having] = spent.map((each) => median(each)!) as [number, number]
  return [shown(without * 1e6, 1), shown(having * 1e6, 1), `${shown((having / without - 1) * 100, 1)} %`]
}

const warmupRounds = 20

/** The processor time that the service takes for the searches. */
async function secondsOf({ client, filter, pid }: Side, queries: readonly number[][]): Promise<number> {
  const before = processorSeconds(pid)
  for (const vector of queries) await client.search({ vector, metric: 'Cosine', limit: 10, filter })
  return processorSeconds(pid) - before
}

/** Of all threads, to the nanosecond: the ticks of `stat` are too long for a block. */
function processorSeconds(pid: number): number {
  const of = (thread: string): number =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + of(thread), 0) / 1e9
}
