import { createHash } from 'node:crypto'
import { GraphAccess } from '../../src/index/graph.ts'
import { GraphState } from '../../src/index/graph-state.ts'
import type { CodeBits } from '../../src/index/segment.ts'
import { VectorIndex } from '../../src/index/vector-index.ts'
import { type KernelVariant, loadKernels } from '../../src/kernels/wasm-module.ts'
import { checkedKernels } from './checked-kernels.ts'
import { clusteredVectors } from './clusters.ts'
import { seededRandom } from './random.ts'

/** Builds a graph in one thread from seeded vectors. Returns a hash of all its links and of search results. */
export function graphHash(
  build: { readonly variant: KernelVariant; readonly isWide: boolean } | 'checked',
  dimension: number,
  codeBits: CodeBits,
  seed: number,
): string {
  const kernels = build === 'checked' ? checkedKernels : loadKernels(build.variant, build.isWide)
  const index = new VectorIndex({
    dimension,
    kernels,
    maxThreads: 1,
    maxLimit: 100,
    m: 8,
    efConstruction: 60,
    codeBits,
    segmentSlots: 1000,
  })
  const vectors = clusteredVectors(seededRandom(seed), 850, dimension)
  const queries = vectors.splice(800)
  for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
  const [segment] = index.segments
  const thread = new GraphAccess(segment!, kernels, 0, 0)
  thread.link(vectors.keys())
  const hash = createHash('sha256')
  const state = new GraphState(segment!, 0)
  hash.update(Uint32Array.from(state.links.subarray(0, 800 * 16)))
  for (const vector of queries) {
    const found = thread.search({ vector, metric: 'Euclidean', k: 10 }, 40, thread.distanceKind).list(0)
    hash.update(JSON.stringify(found.map(({ slot }) => slot)))
  }
  return hash.digest('hex')
}
