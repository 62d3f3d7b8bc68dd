/**
 * Constants that the kernels and src/index share, in addition to the header (graph-header.ts). As there, they are
 * integer constants without types, which AssemblyScript and TypeScript both understand.
 */

/** Maximum number of pages of 64 KiB of a memory: 16 GiB, all that V8 allows. */
export const PAGES_MAX = 262_144

/** The states of a slot in a graph, u8. */
export const ABSENT = 0
export const LINKED = 1
export const LEAVING = 2

/** Marks the end of a list of links that is not full, u32. */
export const NO_LINK = 0xffffffff

/**
 * Distance kinds: distances are computed from codes, or from rows under the metric whose number is added to
 * `ROWS_KIND`.
 */
export const CODES_EUCLIDEAN = 0
export const CODES_COSINE = 1
export const ROWS_KIND = 2

/** Bytes of the header of a code, before its components; see assembly/codes.ts. */
export const CODE_HEADER_BYTES = 16

/** Maximum beam width of a graph search. */
export const EF_MAX = 4096

/** Maximum size of the pool of a walk with a filter. That pool also holds slots that do not match. */
export const FILTERED_POOL_MAX = 16_384

/** Bytes of a lane for the kernels' graph scratch, without the codes of a query. */
export const GRAPH_SCRATCH_BYTES = 4096
