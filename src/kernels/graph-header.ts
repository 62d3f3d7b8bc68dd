/**
 * The header of a graph: byte offsets of its words, which have 64 bits unless stated otherwise.
 *
 * The kernels and src/index/graph-state.ts both import this file, so that the offsets are defined only once. It
 * therefore has only what AssemblyScript and TypeScript both understand: integer constants without types.
 */

// Sizes and byte addresses: written once, before any thread attaches.
export const CODE_WIDTH = 0
export const ROW_LENGTH = 8
export const M = 16
export const M0 = 24
export const EF_CONSTRUCTION = 32
export const CODES = 40
export const CODE_STRIDE = 48
/** Bits of a stored code: 7, one code in a byte (codes.ts), or 4, two codes in a byte (nibbles.ts). */
export const CODE_BITS = 56
export const LINKS = 64
export const UPPERS = 72
export const UPPER_BLOCKS = 80
/** The end of the upper lists. */
export const UPPER_LIMIT = 88
export const LOCKS = 96
export const LIVE = 104
export const STATES = 112
/** 0 if the rows stay on disk. */
export const ROWS = 120
export const SEQUENCES = 128
export const NORMS = 136
/** 0 if the rows stay on disk. */
export const HASHES = 144
export const LEVELS = 152
export const RING = 160
export const RING_LENGTH = 168

// Words that change. They are accessed atomically.
/** u32: the first unused upper list. */
export const UPPER_NEXT = 192
/** level << 32 | slot of the entry point; -1 while the graph is empty. */
export const ENTRY = 200
/** u32, always 0. Threads that wait for a lock sleep on this word for a moment. */
export const PAUSE = 208

// Words that the main thread changes atomically.
/** How many slots have ever left (head) and entered (tail) the ring of slots that wait to be linked. */
export const RING_HEAD = 216
export const RING_TAIL = 224
/** u32: one more than the highest slot of the segment that was ever filled. */
export const SLOTS = 232

/** f32 for each distance kind and each breadth of `src/index/routes.ts`; 0: not measured. The kernels do not read it. */
export const REACHES = 256

/** Size of a header: six cache lines. */
export const HEADER_BYTES = 384
