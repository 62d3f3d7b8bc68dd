/**
 * Returns the highest level of a slot's node. Levels have a geometric distribution with ratio 1/m, as in Malkov and
 * Yashunin (arXiv:1603.09320, section 4). The level depends on the slot alone, so that a reused slot keeps its upper
 * lists.
 */
export function levelOf(slot: number, m: number): number {
  return Math.min(levelMax, Math.floor(-Math.log(uniform(slot)) / Math.log(m)))
}

const levelMax = 15

/** Returns a pseudo-random number in (0, 1], by the finalizer of MurmurHash3. */
function uniform(slot: number): number {
  let hash = Math.imul(slot ^ (slot >>> 16) ^ 0x9e3779b9, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (((hash ^ (hash >>> 16)) >>> 0) + 1) / 4294967296
}
