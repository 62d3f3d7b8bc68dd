import type { ClusterView } from './cluster-view.ts'
import type { Announcement } from './membership.ts'

/**
 * Whether it is a node's turn to leave a lost log for the new one. Until then it answers reads with what it has: the
 * first nodes to continue with the new log take some seconds to be ready.
 *
 *   node b begins the log ─> b is ready ─> a leaves ─> a is ready ─> c leaves ─> c is ready
 *
 * If every node holds all points, all of them leave when one is ready. If each holds only some of the points, they
 * leave one after the other, by name, so that other nodes can answer for each of them.
 *
 * @param position the position up to which the node has applied the lost log
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

/** Whether a node serves with a log that is not lost, even if it is drained. */
function serves({ isReady, serves: isServing = isReady, lostLog }: Announcement): boolean {
  return isServing && lostLog === undefined
}

/** Whether a node has not left the lost log yet. */
function isWaiting({ lostLog, answers }: Announcement): boolean {
  return lostLog !== undefined && answers === true
}
