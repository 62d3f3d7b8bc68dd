/**
 * The header of a graph: byte offsets of its words, which have 32 bits unless stated otherwise.
 *
 * The kernels and src/index/graph-state.ts both import this file, so that the offsets are defined only once. It
 * therefore has only what AssemblyScript and TypeScript both understand: integer constants without types.
 */

// Sizes and byte addresses: written once, before any thread attaches.
export const CODE_WIDTH = 0
export const ROW_LENGTH = 4
export const M = 8
export const M0 = 12
export const EF_CONSTRUCTION = 16
export const CODES = 20
export const CODE_STRIDE = 24
export const LINKS = 28
export const UPPERS = 32
export const UPPER_BLOCKS = 36
export const LOCKS = 40
export const LIVE = 44
export const STATES = 48
/** 0 if the rows stay on disk. */
export const ROWS = 52
export const SEQUENCES = 56
export const NORMS = 60

// Words that change. They are accessed atomically.
/** The first unused upper list. */
export const UPPER_NEXT = 64
/** Written once: the end of the upper lists. */
export const UPPER_LIMIT = 68
/** i64: level << 32 | slot of the entry point; -1 while the graph is empty. */
export const ENTRY = 72
/** Always 0. Threads that wait for a lock sleep on this word for a moment. */
export const PAUSE = 80

// Written once.
export const LEVELS = 84
export const RING = 88
export const RING_LENGTH = 92

// Words that the main thread changes atomically.
/** i64 each: how many slots have ever left (head) and entered (tail) the ring of slots that wait to be linked. */
export const RING_HEAD = 96
export const RING_TAIL = 104
/** One more than the highest slot of the segment that was ever filled. */
export const SLOTS = 112

// Written once.
/** Bits of a stored code: 7, one code in a byte (codes.ts), or 4, two codes in a byte (nibbles.ts). */
export const CODE_BITS = 116

/** 0 if the rows stay on disk. */
export const HASHES = 120

/** f32 for each distance kind and each width of `src/index/walk-reach.ts`; 0: not measured. The kernels do not read it. */
export const REACHES = 128

/** Size of a header: four cache lines. */
export const HEADER_BYTES = 256
