/** A way to answer filtered queries: a contender, and how it is called. */
export interface Way {
  /** The name of a contender in bench/index/contenders. */
  readonly contender: string
  readonly mode: string
  /** Whether ef is raised until the recall is good enough; otherwise the default ef is used. */
  readonly isTuned: boolean
  /** The largest ef that the library accepts, if it is less than ours. */
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
    description: 'the engine with exact search: brute force over the matching points',
  },
  scan: {
    contender: 'vicinal',
    mode: 'scan',
    isTuned: false,
    description: 'the same as exact, without the engine: the index alone, filters evaluated beforehand',
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
    description: 'the index alone without a filter, for ef results, then filtered; best ef',
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

/** The default ways. The others show the overhead of the engine and its search threads. */
export const usualWays: readonly WayName[] = ['planned', 'exact', 'walk', 'post', 'hnswlib', 'zvec']

/** The ways of other libraries. */
export const libraryWays: readonly WayName[] = ['hnswlib', 'zvec']
