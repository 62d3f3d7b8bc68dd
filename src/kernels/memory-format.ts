/**
 * Numbers that the kernels and src/index agree on, besides the header (graph-header.ts). As there: integer constants that
 * AssemblyScript and TypeScript read alike.
 */

/** What a slot is to a graph, u8. */
export const ABSENT = 0
export const LINKED = 1
export const LEAVING = 2

/** The end of a list of links that is not full, u32. */
export const NO_LINK = 0xffffffff

/** What distances are computed from, as distance kinds: codes, or rows under the metric whose number is added to `ROWS_KIND`. */
export const CODES_EUCLIDEAN = 0
export const CODES_COSINE = 1
export const ROWS_KIND = 2

/** Bytes before the components of a code; codes.ts of the kernels describes them. */
export const CODE_HEADER_BYTES = 16

/** The widest beam of a graph search. */
export const EF_MAX = 4096

/** The most places of the pool of a walk with a filter, which holds slots that do not match, too. */
export const FILTERED_POOL_MAX = 16_384

/** Bytes of a lane for the kernels' graph scratch, besides those of a query's codes. */
export const GRAPH_SCRATCH_BYTES = 4096
