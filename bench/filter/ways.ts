/** A way to answer queries with filters: a contender, and how it is asked. */
export interface Way {
  /** Of bench/index/contenders. */
  readonly contender: string
  readonly mode: string
  /** Whether its ef is raised until its recall is good enough; otherwise it has the default ef. */
  readonly isTuned: boolean
  /** The largest ef that the library takes, where it is below our own. */
  readonly efMax?: number
  readonly description: string
}

export const wayNames = ['planned', 'served', 'exact', 'scan', 'walk', 'post', 'hnswlib', 'zvec'] as const
export type WayName = (typeof wayNames)[number]

export const ways: Readonly<Record<WayName, Way>> = {
  planned: {
    contender: 'vicinal-collection',
    mode: 'planned',
    isTuned: false,
    description: 'the engine, which plans each search; default ef',
  },
  served: {
    contender: 'vicinal-served',
    mode: 'planned',
    isTuned: false,
    description: 'the same, handed to a search thread as in the service',
  },
  exact: {
    contender: 'vicinal-collection',
    mode: 'exact',
    isTuned: false,
    description: 'the engine, told to be exact: brute force over the matching points',
  },
  scan: {
    contender: 'vicinal',
    mode: 'scan',
    isTuned: false,
    description: 'as exact, without the engine: the index alone, filters evaluated beforehand',
  },
  walk: {
    contender: 'vicinal',
    mode: 'walk',
    isTuned: true,
    description: 'the index alone, always through the graph, filters evaluated beforehand; best ef',
  },
  post: {
    contender: 'vicinal',
    mode: 'post',
    isTuned: true,
    description:
      'the index alone without a filter, for ef results, of which those that match are kept; best ef',
  },
  hnswlib: {
    contender: 'hnswlib',
    mode: 'callback',
    isTuned: true,
    description: 'hnswlib-node with its filter callback, filters evaluated beforehand; best ef',
  },
  zvec: {
    contender: 'zvec',
    mode: 'filter',
    isTuned: true,
    efMax: 2048,
    description: 'zvec with its filters, over inverted indexes of all attributes; best ef',
  },
}

/** The others show what the engine and its search threads add. */
export const usualWays: readonly WayName[] = ['planned', 'exact', 'walk', 'post', 'hnswlib', 'zvec']

/** Ways of other libraries. */
export const libraryWays: readonly WayName[] = ['hnswlib', 'zvec']
