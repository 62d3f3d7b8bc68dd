/**
 * The operations and results of a cluster's clients, and the check that a single copy of the data could have shown the
 * same results. A group is the points that one request inserted: a batch, or one point.
 */

export interface Write {
  readonly kind: 'insert' | 'delete'
  readonly group: string
  readonly startMs: number
  readonly endMs: number
  /** `unknown`: the write may or may not have been stored. */
  readonly outcome: 'ok' | 'unknown' | 'refused'
}

export interface Read {
  readonly group: string
  readonly consistency: 'session' | 'latest' | 'available'
  readonly startMs: number
  readonly endMs: number
  /** A count of the points of its group, or a search for the nearest to them. */
  readonly by: 'count' | 'search'
  /** How many points of the group were found. */
  readonly found: number
  /** Whether a `session` read sent the position of the acknowledged insert. */
  readonly isAfterInsert: boolean
}

export interface History {
  /** Number of points of each group. */
  readonly sizes: ReadonlyMap<string, number>
  readonly writes: readonly Write[]
  readonly reads: readonly Read[]
}

/** Descriptions of everything in a history that no single copy could have shown. */
export function anomaliesOf({ sizes, writes, reads }: History): string[] {
  const groups = new Map<string, { insert?: Write; delete?: Write; reads: Read[] }>()
  for (const group of sizes.keys()) groups.set(group, { reads: [] })
  for (const write of writes) groups.get(write.group)![write.kind] = write
  for (const read of reads) groups.get(read.group)!.reads.push(read)
  return [...groups].flatMap(([group, { insert, delete: removal, reads: own }]) => {
    if (insert === undefined) return [`group ${group} was never inserted`]
    const size = sizes.get(group)!
    return [
      ...own.flatMap((read) => anomaliesOfRead(read, size, insert, removal)),
      ...anomaliesOfOrder(own.filter(({ consistency }) => consistency === 'latest')),
    ]
  })
}

/** Compares the contents of the nodes at rest with the acknowledged writes. */
export function anomaliesAtRest(
  { sizes, writes }: History,
  contents: ReadonlyMap<string, ReadonlyMap<string, number>>,
): string[] {
  const [first, ...others] = [...contents]
  const faults: string[] = []
  for (const [node, groups] of others) {
    const differing = [...sizes.keys()].filter((group) => groups.get(group) !== first![1].get(group))
    if (differing.length > 0) faults.push(`${node} and ${first![0]} differ in ${differing.slice(0, 5)}`)
  }
  const last = new Map(writes.map((write) => [write.group, [] as Write[]]))
  for (const write of writes) last.get(write.group)!.push(write)
  for (const [node, groups] of contents) {
    for (const [group, own] of last) {
      const found = groups.get(group) ?? 0
      const [insert, removal] = [own.find(isInsert), own.find((write) => !isInsert(write))]
      if (found !== 0 && found !== sizes.get(group)) faults.push(`${node} has ${found} points of ${group}`)
      if (
        found === 0 &&
        insert?.outcome === 'ok' &&
        (removal === undefined || removal.outcome === 'refused')
      ) {
        faults.push(`${node} has lost ${group}, which was acknowledged`)
      }
      if (found !== 0 && insert?.outcome === 'refused') faults.push(`${node} has ${group}, which was refused`)
      if (found !== 0 && removal?.outcome === 'ok') faults.push(`${node} has ${group}, which was deleted`)
    }
  }
  return faults
}

/**
 * Checks the result of an exact search by Euclidean distance.
 *
 * @param points all stored points
 * @param found ids, nearest first
 */
export function anomaliesOfSearch(
  points: readonly { readonly id: string; readonly vector: readonly number[] }[],
  vector: readonly number[],
  limit: number,
  found: readonly string[],
): string[] {
  const distances = new Map(points.map(({ id, vector: own }) => [id, distanceOf(own, vector)]))
  const nearest = [...distances.values()].sort((a, b) => a - b).slice(0, limit)
  const asFound = found.map((id) => distances.get(id))
  const isRight =
    new Set(found).size === nearest.length &&
    found.length === nearest.length &&
    asFound.every((distance, at) => Math.abs((distance ?? Infinity) - nearest[at]!) < rounding)
  return isRight ? [] : [`a search for ${limit} of ${points.length} points near ${vector} found ${found}`]
}

function distanceOf(one: readonly number[], other: readonly number[]): number {
  return Math.hypot(...one.map((each, at) => each - other[at]!))
}

/** Rounding of 32-bit distances: points with a smaller difference may swap places. */
const rounding = 1e-5

function isInsert({ kind }: Write): boolean {
  return kind === 'insert'
}

function anomaliesOfRead(read: Read, size: number, insert: Write, removal: Write | undefined): string[] {
  const { group, found, consistency, by, startMs, endMs } = read
  const fault = (what: string): string[] => [
    `a ${by} of ${consistency} at ${startMs.toFixed(0)}..${endMs.toFixed(0)} ${what} ${group}`,
  ]
  if (found !== 0 && found !== size) return fault(`found ${found} of ${size} points of`)
  if (found !== 0 && endMs < insert.startMs) return fault('found, before it was inserted,')
  if (found !== 0 && insert.outcome === 'refused') return fault('found the refused')
  const isRemoved = removal !== undefined && removal.startMs <= endMs && removal.outcome !== 'refused'
  const isKnown = insert.outcome === 'ok' && insert.endMs < startMs
  const mustSee = consistency === 'latest' ? isKnown : consistency === 'session' && read.isAfterInsert
  if (found === 0 && mustSee && !isRemoved) return fault('did not find')
  const isGone = removal?.outcome === 'ok' && removal.endMs < startMs
  if (found !== 0 && consistency === 'latest' && isGone) return fault('found, after it was deleted,')
  return []
}

/** Once a read has seen a group appear or disappear, no later read may show the earlier state. */
function anomaliesOfOrder(reads: readonly Read[]): string[] {
  const faults: string[] = []
  for (const [index, earlier] of reads.entries()) {
    for (const later of reads.slice(index + 1)) {
      if (later.startMs <= earlier.endMs) continue
      const between = reads.filter(({ startMs, endMs }) => startMs > earlier.endMs && endMs < later.startMs)
      // A group must not be seen, then missing, then seen again.
      if (earlier.found !== 0 && later.found !== 0 && between.some(({ found }) => found === 0)) {
        faults.push(`reads of latest saw ${earlier.group} come twice`)
      }
    }
  }
  return [...new Set(faults)]
}
