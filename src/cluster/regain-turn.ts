import type { ClusterView } from './cluster-view.ts'
import type { Announcement } from './membership.ts'

/**
 * Whether it is the turn of a node to leave a log that is lost for the one that was begun in its place. Until then it answers reads
 * with what it has: the first ones to go on with the new log take some seconds to be ready.
 *
 *   node b begins the log ─> b is ready ─> a leaves ─> a is ready ─> c leaves ─> c is ready
 *
 * Where nodes have all points, all of them leave when one is ready; where they have a part each, one after the other by name, so
 * that others answer for what each has.
 *
 * @param position up to which the node has applied the lost log
 */
export function mayRegain(
  self: string,
  position: number,
  { announced, topology }: Pick<ClusterView, 'announced' | 'topology'>,
): boolean {
  const others = [...announced].filter(([name]) => name !== self)
  if (!others.some(([, said]) => serves(said) && said.position > position)) return false
  if (topology.ownership === undefined) return true
  return others.every(([name, said]) => serves(said) || (isWaiting(said) && name > self))
}

/** With a log that is not lost: also a node that is drained. */
function serves({ isReady, serves: isServing = isReady, lostLog }: Announcement): boolean {
  return isServing && lostLog === undefined
}

/** It has not left the lost log. */
function isWaiting({ lostLog, answers }: Announcement): boolean {
  return lostLog !== undefined && answers === true
}
