import type { VectorIndex } from '../index/vector-index.ts'
import { graphBytesMin } from './graph-set.ts'

/** Explains to an operator why searches of an index have no route. */
export function whyNoRoute({ liveCount, layout }: VectorIndex): string {
  if (liveCount * layout.rowBytes < graphBytesMin)
    return 'there are so few points that a graph would save no time'
  return 'no graph can be used for this metric now: it is being built or measured, or its recall is too low'
}
