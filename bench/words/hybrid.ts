import { scalarDistance } from '../../src/kernels/scalar.ts'
import { fused } from '../../src/search/leg-search.ts'
import { WordIndex } from '../../src/words/word-index.ts'
import { shown, table } from '../shared/table.ts'
import { depth, type Judged, meanNdcg } from './relevance.ts'

/**
 * Compares ways to join words and vectors on a judged collection: the score of the service, with both figures of every
 * candidate, and reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009; k = 60), with the embeddings of a
 * model and with a weak part of them.
 */
export async function compareHybrid(name: string, judged: Judged, embeddings: string): Promise<string> {
  const texts = await embed(embeddings, judged.texts)
  const queries = await embed(embeddings, judged.queries)
  const words = new WordIndex({ language: 'english', weights: [1] })
  for (const [slot, text] of judged.texts.entries()) words.put(slot, slot + 1, [[text]])
  words.freeze()
  const rows = [texts[0]!.length, weakComponents].map((components) => {
    const near = texts.map((vector) => vector.subarray(0, components))
    const found = queries.map((vector, query) =>
      waysOf(words, near, judged.queries[query]!, vector.subarray(0, components)),
    )
    const ndcg = (of: (ways: Ways) => readonly number[]): number => meanNdcg(judged, found.map(of))
    const scored = Array.from({ length: balanceSteps + 1 }, (_, step) =>
      ndcg(({ both }) => both(step / balanceSteps)),
    )
    const best = Math.max(...scored)
    const figures = [
      ndcg(({ byWords }) => byWords),
      ndcg(({ byVector }) => byVector),
      ndcg(({ byRanks }) => byRanks),
      scored[balanceSteps / 2]!,
      best,
    ]
    return [
      `${name}, ${components} components`,
      ...figures.map((figure) => shown(figure, 4)),
      shown(scored.indexOf(best) / balanceSteps, 2),
    ]
  })
  const heads = ['words', 'vectors', 'ranks fused', 'both scored', 'at the best balance', 'which is']
  return table(['nDCG@10', ...heads], rows)
}

/** The best texts of a query by place: of each leg, and joined in two ways. */
interface Ways extends Readonly<Record<'byWords' | 'byVector' | 'byRanks', readonly number[]>> {
  readonly both: (balance: number) => readonly number[]
}

function waysOf(
  words: WordIndex,
  vectors: readonly Float32Array[],
  text: string,
  vector: Float32Array,
): Ways {
  const distances = vectors.map((each) => scalarDistance('Cosine', vector, each))
  const byVector = [...distances.keys()].sort((a, b) => distances[a]! - distances[b]!).slice(0, legSize)
  const byWords = words.search(text, legSize).map(({ slot }) => slot)
  const places = [...new Set([...byWords, ...byVector])]
  const scores = words.scores(text, Uint32Array.from(places))
  const found = places.map((place, at) => ({
    place,
    sequence: place,
    distance: distances[place]!,
    words: scores[at]!,
  }))
  const query = { vector, metric: 'Cosine', limit: depth, ef: legSize } as const
  const legs = { found, bestWords: Math.max(0, ...scores), nearest: 0 }
  const byRank = (place: number): number =>
    [byWords, byVector]
      .map((leg) => leg.indexOf(place))
      .reduce((sum, rank) => (rank < 0 ? sum : sum + 1 / (fusedRanks + 1 + rank)), 0)
  return {
    byWords,
    byVector,
    both: (balance) =>
      fused({ ...query, words: { text, balance } }, legs)
        .slice(0, depth)
        .map(({ place }) => place),
    byRanks: places.toSorted((a, b) => byRank(b) - byRank(a)),
  }
}

/** Returns the embeddings of texts, from an endpoint with the interface of OpenAI. */
async function embed(url: string, texts: readonly string[]): Promise<Float32Array[]> {
  const vectors: Float32Array[] = []
  for (let start = 0; start < texts.length; start += textsPerRequest) {
    const input = texts.slice(start, start + textsPerRequest)
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ model, input }) })
    if (!response.ok) throw new Error(`${url}: ${await response.text()}`)
    const { data } = (await response.json()) as { data: { embedding: number[] }[] }
    vectors.push(...data.map(({ embedding }) => Float32Array.from(embedding)))
  }
  return vectors
}

/** As many as the service takes of each leg. */
const legSize = 100
const fusedRanks = 60
const balanceSteps = 20
/** So few of a model's components tell little. */
const weakComponents = 16
const textsPerRequest = 32
const model = 'all-MiniLM-L6-v2'
