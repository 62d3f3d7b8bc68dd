import { setTimeout as sleep } from 'node:timers/promises'
import { jsonNumbers } from '../../../src/base/attributes.ts'
import { createHttpClient } from '../../../src/client/index.ts'
import { findWordNet, unitRows, wordNetLines, wordNetQueryLines } from '../../shared/data/wordnet.ts'
import { median } from '../../shared/median.ts'
import { shown } from '../../shared/table.ts'
import { connectHttp, type Sender } from '../load/load-connections.ts'
import type { WireRequest } from '../load/load-plan.ts'
import { startServer } from '../targets/target.ts'

const kinds = ['words', 'vector', 'hybrid'] as const
type Kind = (typeof kinds)[number]

export const hybridTitle = 'Hybrid searches beside their legs'

export const hybridHeadings: readonly string[] = [
  'clients',
  ...kinds.map((kind) => `${kind}, ms`),
  'hybrid to the slower leg',
]

/**
 * Compares hybrid searches with searches by each of their legs, through HTTP: a service has the glosses of WordNet with
 * their vectors, and each query is the definition of a gloss that it does not have, with its vector. Short blocks of the
 * three kinds take turns, each first in every third round, so that all see the same moments of a busy machine.
 *
 * @param wordnet as in `findWordNet`
 */
export async function hybridCurve(
  wordnet: string | undefined,
  rounds: number,
  onRow: (row: readonly string[]) => void,
): Promise<void> {
  const { base, queries, dimension } = findWordNet(wordnet)
  const textsOf = (lines: readonly string[]): readonly string[] =>
    lines.map((line) => (JSON.parse(line) as { readonly text: string }).text)
  const texts = textsOf(wordNetLines(wordnet))
  await using server = await startServer('vicinal')
  await fill(server.ports.http, { texts, vectors: rowsOf(unitRows(base), dimension) })
  const vectors = rowsOf(unitRows(queries), dimension)
  const asked = textsOf(wordNetQueryLines(wordnet)).map((text, at) => ({
    words: text.slice(text.indexOf(': ') + 2),
    vector: vectors[at]!,
  }))
  const requests = kinds.map((kind) => asked.map((each) => requestOf(kind, each)))
  for (const clients of clientCounts) {
    const sender = await connectHttp(server.ports.http, clients)
    const times = kinds.map((): number[] => [])
    const ratios: number[] = []
    for (let round = -warmupRounds; round < rounds; round += 1) {
      const medians = [0, 0, 0]
      for (let turn = 0; turn < kinds.length; turn += 1) {
        const kind = (Math.abs(round) + turn) % kinds.length
        medians[kind] = await medianOf(sender, requests[kind]!, (round + warmupRounds) * block, clients)
        if (round >= 0) times[kind]!.push(medians[kind])
      }
      if (round >= 0) ratios.push(medians[2]! / Math.max(medians[0]!, medians[1]!))
    }
    const figures = [...times.map((each) => median(each)!), median(ratios)!]
    onRow([String(clients), ...figures.map((figure) => shown(figure, 2))])
  }
}

interface Filling {
  readonly texts: readonly string[]
  readonly vectors: readonly Float32Array[]
}

/** Stores the points with their words, and waits until they are indexed. */
async function fill(port: number, { texts, vectors }: Filling): Promise<void> {
  const baseUrl = `http://127.0.0.1:${port}`
  const client = createHttpClient({ baseUrl })
  const settings = { method: 'PUT', headers: { 'content-type': 'application/json' } }
  const body = '{"words":{"language":"english","paths":{"content":1}}}'
  await fetch(`${baseUrl}/collections/default`, { ...settings, body })
  for (let from = 0; from < texts.length; from += batchSize) {
    const points = texts.slice(from, from + batchSize).map((content, at) => ({
      vector: vectors[from + at]!,
      payload: { contentType: 'Text' as const, content },
    }))
    await client.insertBatch(points)
  }
  await client.search({ vector: vectors[0]!, metric: 'Cosine', limit: 10 })
  for (;;) {
    const { waiting, isSettling } = await client.stats()
    if (waiting === 0 && !isSettling) break
    await sleep(500)
  }
  await client.close()
}

function requestOf(kind: Kind, { words, vector }: { words: string; vector: Float32Array }): WireRequest {
  const byWords = `"words":${JSON.stringify(words)}`
  const byVector = `"vector":${jsonNumbers(vector)},"similarity":"Cosine"`
  const fields = kind === 'words' ? [byWords] : kind === 'vector' ? [byVector] : [byVector, byWords]
  return { path: '/points/search', body: Buffer.from(`{${fields.join(',')},"limit":10}`) }
}

/** Returns the median time of some requests in milliseconds. */
async function medianOf(
  sender: Sender,
  requests: readonly WireRequest[],
  from: number,
  clients: number,
): Promise<number> {
  const times: number[] = []
  let next = from
  const end = from + block * clients
  const work = async (): Promise<void> => {
    while (next < end) {
      const request = requests[next++ % requests.length]!
      const startMs = performance.now()
      if ((await sender.send(request)) !== 'answered') throw new Error('a search was refused')
      times.push(performance.now() - startMs)
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  return median(times)!
}

function rowsOf(rows: Float32Array, dimension: number): Float32Array[] {
  return Array.from({ length: rows.length / dimension }, (_, row) =>
    rows.subarray(row * dimension, (row + 1) * dimension),
  )
}

const clientCounts = [1, 4]
const batchSize = 1000
/** Short, so that all kinds see the same moments. */
const block = 20
const warmupRounds = 10
