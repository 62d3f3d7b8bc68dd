import { availableParallelism } from 'node:os'
import { hnswBounds } from '../base/collection.ts'
import { dimensionMax } from '../base/point.ts'
import { boolean, integer, oneOf, share } from './kinds.ts'
import type { Row } from './row.ts'

export class SearchSettings {
  readonly dimension: Row<number | undefined> = integer(1, dimensionMax, {
    default: undefined,
    defaultText: 'fixed by the first insert',
    doc: `Length of every stored and query vector, 1..${dimensionMax}. It is stored with the data; the service does not start with a different one.`,
  })

  readonly hnswEf: Row<number> = integer(1, 1_000_000, {
    default: 128,
    doc: 'Default search breadth ef: a larger one finds more of the true neighbours and takes longer.',
  })

  readonly recallTarget: Row<number> = share(0.5, 1, {
    default: 0.98,
    doc: 'Share of the true neighbours that a search at the default ef has to find, 0.5..1. It is measured on stored points for each metric. A graph that falls short is searched more widely; if it still falls short, the exact scan replaces it.',
  })

  readonly hnswM: Row<number> = integer(hnswBounds.m.min, hnswBounds.m.max, {
    default: 16,
    doc: 'Links of a point in the HNSW graph (twice as many on its lowest level): more links find more and take more memory. A change rebuilds the graph.',
  })

  readonly hnswEfConstruction: Row<number> = integer(
    hnswBounds.efConstruction.min,
    hnswBounds.efConstruction.max,
    {
      default: 128,
      doc: 'Breadth of the search for the links of a new point: a larger one makes a better graph, more slowly. It applies to points that are linked from then on.',
    },
  )

  readonly hnswCodeBits: Row<4 | 7 | undefined> = oneOf([4, 7], {
    default: undefined,
    defaultText: '4 from 256 dimensions on, else 7',
    doc: 'Bits per component in the codes that graphs are built and searched with. 4 takes half the memory of 7, and is faster for long vectors. 7 orders near neighbours better if vectors are short, or far from the origin compared with their distances. Results are measured exactly in any case. A change keeps the graph; recall is measured again.',
  })

  readonly vectorsOnDisk: Row<boolean> = boolean({
    default: false,
    doc: 'Keeps only codes and links in memory, a quarter of the vectors or less, and reads the vectors that a search needs from disk: for collections larger than memory.',
  })

  readonly searchThreads: Row<number> = integer(1, 256, {
    default: availableParallelism(),
    defaultText: 'one per core',
    doc: 'Worker threads that search.',
  })

  readonly indexThreads: Row<number> = integer(1, 64, {
    default: availableParallelism(),
    defaultText: 'one per core',
    doc: 'Threads that link new points into the index, at a lower priority than searches.',
  })
}
