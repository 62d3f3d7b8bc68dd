import type { VectorIndex } from '../index/vector-index.ts'
import { graphBytesMin } from './graph-set.ts'

/** Why searches of an index have no route, for an operator. */
export function whyNoRoute({ liveCount, layout }: VectorIndex): string {
  if (liveCount * layout.rowBytes < graphBytesMin)
    return 'the points are so few that a graph would save no time'
  return 'no graph can be used for this metric now: it is being built or measured, or does not find enough'
}
