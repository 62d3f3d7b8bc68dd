/** The requests that nodes send each other over the link. Their numbers never change; 1 is not used. */
// biome-ignore format: a line a group
export const peerMethods = {
  search: 2, get: 3, list: 4, count: 5, facets: 6, plan: 7, stats: 8, collectionPoints: 10,
  partitionList: 16, partitionPoints: 17, partitionCut: 18,
  replicaCatalog: 19, replicaCollection: 20,
  snapshotHold: 21, snapshotPart: 22, snapshotRelease: 23,
  outcome: 32, found: 33,
} as const

export type PeerMethod = (typeof peerMethods)[keyof typeof peerMethods]
