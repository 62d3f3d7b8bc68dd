/**
 * The structures that the kernel of words (assembly/words.ts) and src/words share. As in graph-header.ts, they are
 * integer constants without types, which AssemblyScript and TypeScript both understand. Offsets are in bytes; words
 * have 32 bits unless stated otherwise.
 */

/** Postings of a block. */
export const BLOCK = 128

/** Documents of a window: its scores, 16 KiB, fit into the first cache of a core. */
export const WINDOW = 4096

/** Bytes of the header of a full block: last document, u8 bits of a delta, u8 bits of a code, u8 maximum, unused. */
export const BLOCK_HEADER_BYTES = 8
export const HEADER_LAST = 0
export const HEADER_DOC_BITS = 4
export const HEADER_CODE_BITS = 5
export const HEADER_MAXIMUM = 6

/** The steps of a block's maximum: 255 is a saturation of 1. */
export const MAXIMUM_STEPS = 255

// A query on one part.
export const QUERY_DOCUMENTS = 0
/** f32 by document: the weighted length. */
export const QUERY_LENGTHS = 4
/** A bit by document. */
export const QUERY_LIVE = 8
/** u32 by document. */
export const QUERY_SLOTS = 12
/** A bit by slot; 0 without a filter. */
export const QUERY_FILTER = 16
/** f64 by code: the weighted frequency. */
export const QUERY_FREQUENCIES = 20
export const QUERY_TERM_COUNT = 24
export const QUERY_TERMS = 28
/** u64 each: score and inverted document, a heap with the least first; sorted by `finishWords`. */
export const QUERY_POOL = 32
export const QUERY_K = 36
export const QUERY_COUNT = 40
/** Only documents with a higher score are wanted. */
export const QUERY_FLOOR = 44
/** f64: k1 (1 - b), and k1 b / the average length. */
export const QUERY_NORM_BASE = 48
export const QUERY_NORM_SLOPE = 56
/** Scratch: WINDOW scores, zero between searches. */
export const QUERY_SCORES = 64
/** Scratch: WINDOW documents, and then their scores. */
export const QUERY_CANDIDATES = 68
/** Scratch: addresses of terms. */
export const QUERY_ORDER = 72
export const QUERY_BYTES = 80

// A term of a query.
export const TERM_LIST = 0
/** How many postings the list has. */
export const TERM_COUNT = 4
/** f64: what a saturation of 1 adds to a score. */
export const TERM_WEIGHT = 8
/** f64: what one step of a block's maximum allows. */
export const TERM_STEP = 16
/** Scratch: BLOCK documents, 4 more, BLOCK codes. */
export const TERM_BUFFER = 24
// What the kernel remembers between windows.
export const TERM_BLOCK = 28
export const TERM_DATA = 32
export const TERM_DECODED = 36
export const TERM_AT = 40
export const TERM_SIZE = 44
export const TERM_BOUND = 48
/** The last document of the block before. */
export const TERM_BEFORE = 52
export const TERM_BYTES = 64

/** The bytes of a term's buffer. */
export const BUFFER_BYTES = 1040
export const BUFFER_CODES = 528
