import * as format from '../words-format'

/**
 * Reads the postings of a term in order: the documents that have it, with a code for how often.
 *
 * A list of at least 128 postings begins with the offset of its tail, then come headers and blocks:
 *
 * ```
 * tail offset u32 | header of each full block | packed blocks | tail: u8 maximum, then variable-length integers
 * ```
 *
 * A shorter list is only a tail. A block has the gaps between documents, less one, and then the codes, each with the
 * bits that the greatest needs; value i is in lane i % 4, so that four are unpacked at a time (Lemire and Boytsov,
 * Decoding billions of integers per second through vectorization, SPE 2015).
 */

const BLOCK: i32 = format.BLOCK

/** No document has this number. */
export const END: u32 = 0xffffffff

/** Starts reading a list. */
export function rewind(term: usize): void {
  store<i32>(term, 0, format.TERM_BLOCK)
  store<u32>(term, <u32>(headersOf(term) + <usize>fullBlocks(term) * format.BLOCK_HEADER_BYTES), format.TERM_DATA)
  store<i32>(term, -1, format.TERM_DECODED)
  store<u32>(term, END, format.TERM_BEFORE)
}

// @ts-ignore: decorator
@inline
function fullBlocks(term: usize): i32 {
  return load<i32>(term, format.TERM_COUNT) >> 7
}

// @ts-ignore: decorator
@inline
function headersOf(term: usize): usize {
  return <usize>load<u32>(term, format.TERM_LIST) + (load<i32>(term, format.TERM_COUNT) >= BLOCK ? 4 : 0)
}

// @ts-ignore: decorator
@inline
function tailOf(term: usize): usize {
  const list = <usize>load<u32>(term, format.TERM_LIST)
  return load<i32>(term, format.TERM_COUNT) >= BLOCK ? list + <usize>load<u32>(list) : list
}

/** Whether all postings have been passed. */
// @ts-ignore: decorator
@inline
function isOver(term: usize): bool {
  return (load<i32>(term, format.TERM_BLOCK) << 7) >= load<i32>(term, format.TERM_COUNT)
}

/** Passes blocks whose last document is before `document`. The last document of the tail is not known without reading. */
export function skipTo(term: usize, document: u32): void {
  const full = fullBlocks(term)
  let block = load<i32>(term, format.TERM_BLOCK)
  if (block >= full) return
  let header = headersOf(term) + <usize>block * format.BLOCK_HEADER_BYTES
  if (load<u32>(header, format.HEADER_LAST) >= document) return
  let data = load<u32>(term, format.TERM_DATA)
  do {
    data += (<u32>load<u8>(header, format.HEADER_DOC_BITS) + <u32>load<u8>(header, format.HEADER_CODE_BITS)) << 4
    header += format.BLOCK_HEADER_BYTES
    block++
  } while (block < full && load<u32>(header, format.HEADER_LAST) < document)
  store<i32>(term, block, format.TERM_BLOCK)
  store<u32>(term, data, format.TERM_DATA)
  store<u32>(term, load<u32>(header - format.BLOCK_HEADER_BYTES, format.HEADER_LAST), format.TERM_BEFORE)
}

/** As `skipTo`, and also passes the postings before `document` of a block that is decoded. */
export function advanceTo(term: usize, document: u32): void {
  skipTo(term, document)
  if (isOver(term) || load<i32>(term, format.TERM_DECODED) != load<i32>(term, format.TERM_BLOCK)) return
  if (passBefore(term, document) == load<i32>(term, format.TERM_SIZE)) nextBlock(term)
}

/** Passes the postings of the decoded block before `document`. Returns the place of the next. */
function passBefore(term: usize, document: u32): i32 {
  const buffer = <usize>load<u32>(term, format.TERM_BUFFER)
  const size = load<i32>(term, format.TERM_SIZE)
  let at = load<i32>(term, format.TERM_AT)
  // In steps of 16 first: a block has 128 documents, and those sought are often far apart.
  while (at + 16 < size && load<u32>(buffer + (<usize>at << 2), 60) < document) at += 16
  while (at < size && load<u32>(buffer + (<usize>at << 2)) < document) at++
  store<i32>(term, at, format.TERM_AT)
  return at
}

/** Returns a document that no posting of the current block and later ones is before; END if there are none. */
// @ts-ignore: decorator
@inline
export function nextAfter(term: usize): u32 {
  if (isOver(term)) return END
  if (load<i32>(term, format.TERM_DECODED) == load<i32>(term, format.TERM_BLOCK)) {
    return documentAt(term, load<i32>(term, format.TERM_AT))
  }
  return load<u32>(term, format.TERM_BEFORE) + 1
}

/** Returns what the term can add to the score of a document before `end`. Blocks before it must have been passed. */
export function boundBefore(term: usize, end: u32): u32 {
  if (nextAfter(term) >= end) return 0
  const full = fullBlocks(term)
  let block = load<i32>(term, format.TERM_BLOCK)
  let header = headersOf(term) + <usize>block * format.BLOCK_HEADER_BYTES
  let maximum: u32 = 0
  let isInside = true
  for (; block < full && isInside; block++) {
    maximum = max(maximum, <u32>load<u8>(header, format.HEADER_MAXIMUM))
    isInside = load<u32>(header, format.HEADER_LAST) + 1 < end
    header += format.BLOCK_HEADER_BYTES
  }
  if (isInside && (load<i32>(term, format.TERM_COUNT) & (BLOCK - 1)) != 0) {
    maximum = max(maximum, <u32>load<u8>(tailOf(term)))
  }
  return boundOf(term, maximum)
}

/** One more than the product, because what a term adds is rounded. */
// @ts-ignore: decorator
@inline
function boundOf(term: usize, maximum: u32): u32 {
  return <u32>min(<f64>maximum * load<f64>(term, format.TERM_STEP), load<f64>(term, format.TERM_WEIGHT)) + 1
}

// @ts-ignore: decorator
@inline
export function documentAt(term: usize, at: i32): u32 {
  return load<u32>(<usize>load<u32>(term, format.TERM_BUFFER) + (<usize>at << 2))
}

// @ts-ignore: decorator
@inline
export function codeAt(term: usize, at: i32): u32 {
  return load<u32>(<usize>load<u32>(term, format.TERM_BUFFER) + (<usize>at << 2), format.BUFFER_CODES)
}

/** Unpacks the current block, unless it is. END follows its documents. Returns false if there are no more blocks. */
export function decode(term: usize): bool {
  const block = load<i32>(term, format.TERM_BLOCK)
  if (load<i32>(term, format.TERM_DECODED) == block) return true
  if (isOver(term)) return false
  const buffer = <usize>load<u32>(term, format.TERM_BUFFER)
  const before = load<u32>(term, format.TERM_BEFORE)
  let size = BLOCK
  if (block < fullBlocks(term)) {
    const header = headersOf(term) + <usize>block * format.BLOCK_HEADER_BYTES
    const data = <usize>load<u32>(term, format.TERM_DATA)
    const docBits = <i32>load<u8>(header, format.HEADER_DOC_BITS)
    unpack(data, docBits, buffer)
    sumGaps(buffer, before)
    unpack(data + (<usize>docBits << 4), <i32>load<u8>(header, format.HEADER_CODE_BITS), buffer + format.BUFFER_CODES)
  } else {
    size = load<i32>(term, format.TERM_COUNT) & (BLOCK - 1)
    decodeTail(tailOf(term) + 1, size, before, buffer)
  }
  v128.store(buffer + (<usize>size << 2), i32x4.splat(-1))
  store<i32>(term, block, format.TERM_DECODED)
  store<i32>(term, 0, format.TERM_AT)
  store<i32>(term, size, format.TERM_SIZE)
  return true
}

/**
 * Passes the current block if it is not decoded, ends before `end`, and none of its postings can add more than `most`.
 * Returns whether it did.
 */
export function skipBlock(term: usize, end: u32, most: u32): bool {
  const block = load<i32>(term, format.TERM_BLOCK)
  if (block >= fullBlocks(term) || load<i32>(term, format.TERM_DECODED) == block) return false
  const header = headersOf(term) + <usize>block * format.BLOCK_HEADER_BYTES
  const last = load<u32>(header, format.HEADER_LAST)
  if (last >= end || boundOf(term, <u32>load<u8>(header, format.HEADER_MAXIMUM)) > most) return false
  skipTo(term, last + 1)
  return true
}

/** Goes on to the block behind the current one, which is decoded. */
export function nextBlock(term: usize): void {
  const block = load<i32>(term, format.TERM_BLOCK)
  store<u32>(term, documentAt(term, load<i32>(term, format.TERM_SIZE) - 1), format.TERM_BEFORE)
  if (block < fullBlocks(term)) {
    const header = headersOf(term) + <usize>block * format.BLOCK_HEADER_BYTES
    const bits = <u32>load<u8>(header, format.HEADER_DOC_BITS) + <u32>load<u8>(header, format.HEADER_CODE_BITS)
    store<u32>(term, load<u32>(term, format.TERM_DATA) + (bits << 4), format.TERM_DATA)
  }
  store<i32>(term, block + 1, format.TERM_BLOCK)
}

/** Finds the posting of a document, which must not be before those asked before. Returns its place; -1 without one. */
export function find(term: usize, document: u32): i32 {
  skipTo(term, document)
  if (!decode(term)) return -1
  const at = passBefore(term, document)
  if (at == load<i32>(term, format.TERM_SIZE)) {
    // Only a tail can end before the document, because its last document is not known until it is read.
    nextBlock(term)
    return -1
  }
  return documentAt(term, at) == document ? at : -1
}

/** Unpacks 128 values of some bits. */
function unpack(data: usize, bits: i32, out: usize): void {
  if (bits == 0) {
    memory.fill(out, 0, BLOCK << 2)
    return
  }
  const mask = i32x4.splat(<i32>((<u64>1 << <u64>bits) - 1))
  let shift = 0
  let word = v128.load(data)
  for (let end = out + (BLOCK << 2); out < end; out += 16) {
    let value = i32x4.shr_u(word, shift)
    shift += bits
    if (shift >= 32) {
      shift -= 32
      data += 16
      word = v128.load(data)
      if (shift > 0) value = v128.or(value, i32x4.shl(word, bits - shift))
    }
    v128.store(out, v128.and(value, mask))
  }
}

/** Turns gaps less one into documents. */
function sumGaps(buffer: usize, before: u32): void {
  let last = i32x4.splat(<i32>before)
  const one = i32x4.splat(1)
  const zero = i32x4.splat(0)
  for (let at = buffer; at < buffer + (BLOCK << 2); at += 16) {
    let gaps = i32x4.add(v128.load(at), one)
    gaps = i32x4.add(gaps, v128.shuffle<i32>(zero, gaps, 0, 4, 5, 6))
    gaps = i32x4.add(gaps, v128.shuffle<i32>(zero, gaps, 0, 1, 4, 5))
    const documents = i32x4.add(gaps, last)
    v128.store(at, documents)
    last = v128.shuffle<i32>(documents, documents, 3, 3, 3, 3)
  }
}

/** Reads a tail: the gap less one, doubled, plus one if a code follows; a code of 0 does not. */
function decodeTail(at: usize, size: i32, before: u32, buffer: usize): void {
  let document = before
  for (let i = 0; i < size; i++) {
    let value: u32 = 0
    let shift: u32 = 0
    let byte: u32 = 0
    do {
      byte = <u32>load<u8>(at++)
      value |= (byte & 127) << shift
      shift += 7
    } while (byte > 127)
    let code: u32 = 0
    if (value & 1) {
      shift = 0
      do {
        byte = <u32>load<u8>(at++)
        code |= (byte & 127) << shift
        shift += 7
      } while (byte > 127)
    }
    document += (value >>> 1) + 1
    store<u32>(buffer + (<usize>i << 2), document)
    store<u32>(buffer + (<usize>i << 2), code, format.BUFFER_CODES)
  }
}
