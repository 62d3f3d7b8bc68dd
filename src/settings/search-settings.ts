import { availableParallelism } from 'node:os'
import { hnswBounds } from '../base/collection.ts'
import { dimensionMax } from '../base/point.ts'
import { boolean, integer, oneOf, share } from './kinds.ts'
import type { Row } from './row.ts'

export class SearchSettings {
  readonly dimension: Row<number | undefined> = integer(1, dimensionMax, {
    default: undefined,
    defaultText: 'fixed by the first insert',
    doc: `Length of every stored and query vector, 1..${dimensionMax}. It is stored with the data; a different one refuses to start.`,
  })

  readonly hnswEf: Row<number> = integer(1, 1_000_000, {
    default: 128,
    doc: 'Default search breadth ef: larger finds more of the true neighbours and takes longer.',
  })

  readonly recallTarget: Row<number> = share(0.5, 1, {
    default: 0.98,
    doc: 'Share of the true neighbours that a search at the default ef has to find, 0.5..1. Measured on stored points for each metric: a graph that falls short is searched wider, and one that still falls short gives way to the exact scan.',
  })

  readonly hnswM: Row<number> = integer(hnswBounds.m.min, hnswBounds.m.max, {
    default: 16,
    doc: 'Links of a point in the HNSW graph (twice as many on its lowest level): more finds more and takes more memory. A change rebuilds the graph.',
  })

  readonly hnswEfConstruction: Row<number> = integer(
    hnswBounds.efConstruction.min,
    hnswBounds.efConstruction.max,
    {
      default: 128,
      doc: 'Breadth of the search for the links of a new point: larger makes a better graph, slower. Holds for points that are linked from then on.',
    },
  )

  readonly hnswCodeBits: Row<4 | 7 | undefined> = oneOf([4, 7], {
    default: undefined,
    defaultText: '4 from 256 dimensions on, else 7',
    doc: 'Bits of a component in the codes that graphs are built and walked on: 4 takes half the memory of 7 and is faster where vectors are long, 7 orders near neighbours better where they are short, or far from the origin beside their distances. Results are measured exactly in any case. A change keeps the graph; recall is measured again.',
  })

  readonly vectorsOnDisk: Row<boolean> = boolean({
    default: false,
    doc: 'Keeps only codes and links in memory, a quarter of the vectors or less, and reads what a search needs of the vectors from disk: for collections larger than memory.',
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
