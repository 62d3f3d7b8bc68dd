import { ByteReader } from './byte-writer.ts'
import { Dictionary, type TermEntry } from './dictionary.ts'
import { type PartContent, weightedFrequencies, weightedLengths } from './part-content.ts'
import { PostingsReader } from './postings.ts'

/** A part in memory: its content in one region of the arena, and which of its documents are live. */
export class Part {
  readonly documents: number
  readonly terms: number
  readonly norms: PartContent['norms']
  readonly weights: readonly number[]
  readonly bytes: number
  /** The documents that were removed, in the order of their removal. */
  readonly removed: number[] = []
  /** Addresses in the arena. */
  readonly addresses: PartAddresses
  readonly slots: Uint32Array
  readonly sequences: Float64Array
  readonly languages: Uint8Array
  readonly lengths: readonly Uint32Array[]
  readonly codes: Uint32Array
  readonly dictionary: Dictionary
  readonly postings: Uint8Array
  readonly positions: Uint8Array
  readonly #arena: Arena
  readonly #live: Uint32Array
  readonly #removals = new Map<TermEntry, Removals>()

  constructor(arena: Arena, content: PartContent) {
    const documents = content.slots.length
    const frequencies = weightedFrequencies(content.codes, content.weights)
    const weighted = weightedLengths(content.lengths, content.weights)
    const region = new Region()
    const offsets = {
      sequences: region.add(content.sequences.byteLength),
      frequencies: region.add(frequencies.byteLength),
      slots: region.add(content.slots.byteLength),
      weighted: region.add(weighted.byteLength),
      live: region.add(4 * Math.ceil(documents / 32)),
      codes: region.add(content.codes.byteLength),
      lengths: content.lengths.map((column) => region.add(column.byteLength)),
      languages: region.add(documents),
      dictionary: region.add(content.dictionary.length),
      postings: region.add(content.postings.length),
      positions: region.add(content.positions.length),
    }
    const start = arena.allocate(region.bytes)
    const { buffer } = arena.memory
    this.#arena = arena
    this.documents = documents
    this.terms = content.terms
    this.norms = content.norms
    this.weights = content.weights
    this.bytes = region.bytes
    this.addresses = {
      start,
      slots: start + offsets.slots,
      lengths: start + offsets.weighted,
      frequencies: start + offsets.frequencies,
      live: start + offsets.live,
      postings: start + offsets.postings,
    }
    this.sequences = new Float64Array(buffer, start + offsets.sequences, documents)
    this.slots = new Uint32Array(buffer, start + offsets.slots, documents)
    this.languages = new Uint8Array(buffer, start + offsets.languages, documents)
    this.lengths = offsets.lengths.map((offset) => new Uint32Array(buffer, start + offset, documents))
    this.codes = new Uint32Array(buffer, start + offsets.codes, content.codes.length)
    this.#live = new Uint32Array(buffer, start + offsets.live, Math.ceil(documents / 32))
    const dictionary = new Uint8Array(buffer, start + offsets.dictionary, content.dictionary.length)
    this.postings = new Uint8Array(buffer, start + offsets.postings, content.postings.length)
    this.positions = new Uint8Array(buffer, start + offsets.positions, content.positions.length)
    this.sequences.set(content.sequences)
    this.slots.set(content.slots)
    this.languages.set(content.languages)
    for (const [path, column] of this.lengths.entries()) column.set(content.lengths[path]!)
    this.codes.set(content.codes)
    dictionary.set(content.dictionary)
    this.postings.set(content.postings)
    this.positions.set(content.positions)
    new Float64Array(buffer, start + offsets.frequencies, frequencies.length).set(frequencies)
    new Float32Array(buffer, start + offsets.weighted, documents).set(weighted)
    for (let document = 0; document < documents; document += 1)
      this.#live[document >> 5]! |= 1 << (document & 31)
    this.dictionary = new Dictionary(dictionary, content.terms, content.groups)
  }

  /** What to write to a file: the part as it was when it was made. */
  get content(): PartContent {
    return {
      slots: this.slots,
      sequences: this.sequences,
      languages: this.languages,
      lengths: this.lengths,
      codes: this.codes,
      dictionary: this.dictionary.bytes,
      terms: this.terms,
      postings: this.postings,
      positions: this.positions,
      norms: this.norms,
      weights: this.weights,
    }
  }

  get liveDocuments(): number {
    return this.documents - this.removed.length
  }

  isLive(document: number): boolean {
    return ((this.#live[document >> 5]! >>> (document & 31)) & 1) === 1
  }

  remove(document: number): void {
    if (!this.isLive(document)) throw new Error(`document ${document} of a part was removed before`)
    this.#live[document >> 5]! &= ~(1 << (document & 31))
    this.removed.push(document)
  }

  /** How often a term with a code occurs in all paths of a document. */
  total(code: number): number {
    let total = 0
    for (let path = 0; path < this.lengths.length; path += 1)
      total += this.codes[code * this.lengths.length + path]!
    return total
  }

  /**
   * Returns what a term's statistics count of removed documents. Only documents removed since the last call are sought.
   *
   * @param find returns the code plus one of the term in each of some documents, which ascend; 0 without it
   */
  removals(entry: TermEntry, find: (documents: Uint32Array) => Uint32Array): Removals {
    let known = this.#removals.get(entry) ?? { seen: 0, documents: 0, occurrences: 0 }
    if (known.seen === this.removed.length) return known
    const since = Uint32Array.from(this.removed.slice(known.seen)).sort()
    let { documents, occurrences } = known
    for (const code of find(since)) {
      if (code === 0) continue
      documents += 1
      occurrences += this.total(code - 1)
    }
    known = { seen: this.removed.length, documents, occurrences }
    if (this.#removals.size >= removalsMax) this.#removals.clear()
    this.#removals.set(entry, known)
    return known
  }

  reader(): PostingsReader {
    return new PostingsReader(this.postings)
  }

  /** Whether a term with a code occurs in a path; in any if it is undefined. */
  hasInPath(code: number, path: number | undefined): boolean {
    return path === undefined || this.codes[code * this.lengths.length + path]! > 0
  }

  /** Returns the positions of a term in each path of those of its documents that `isWanted`. */
  *occurrences(entry: TermEntry, isWanted: (document: number) => boolean): Generator<Occurrences> {
    const postings = this.reader()
    postings.read(entry.list, entry.documents)
    const reader = new ByteReader(this.positions, entry.positions)
    const paths = this.lengths.length
    for (let index = 0; index < entry.documents; index += 1) {
      const document = postings.documents[index]!
      const code = postings.codes[index]!
      if (!isWanted(document)) reader.skip(this.total(code))
      else {
        const counts = Array.from({ length: paths }, (_, path) => this.codes[code * paths + path]!)
        yield { document, positions: counts.map((count) => readGaps(reader, count)) }
      }
    }
  }

  /** Frees its memory, which no search may read any more. */
  release(): void {
    this.#arena.release(this.addresses.start, this.bytes)
  }
}

/** Where a term is in a document. */
interface Occurrences {
  readonly document: number
  /** The positions in each path, ascending. */
  readonly positions: readonly (readonly number[])[]
}

/** What a term's statistics count of the first `seen` removed documents. */
interface Removals {
  readonly seen: number
  readonly documents: number
  readonly occurrences: number
}

/** Terms whose removals are remembered. */
const removalsMax = 16_384

export interface PartAddresses {
  readonly start: number
  readonly slots: number
  /** f32 by document, weighted. */
  readonly lengths: number
  /** f64 by code, weighted. */
  readonly frequencies: number
  readonly live: number
  readonly postings: number
}

function readGaps(reader: ByteReader, count: number): number[] {
  let position = 0
  return Array.from({ length: count }, () => {
    position += reader.integer()
    return position
  })
}

/** Offsets in a region, multiples of 16. */
class Region {
  bytes = 0

  add(size: number): number {
    const at = this.bytes
    this.bytes += Math.ceil(size / 16) * 16
    return at
  }
}

interface FreeRegion {
  address: number
  bytes: number
}

const pageBytes = 65_536
const pagesMax = 65_536
/** The vectors of the kernel may be read up to this far behind a region. */
const slackBytes = 64

/**
 * Regions of one memory, which the kernel of words reads.
 *
 * Free regions are kept in a list by address and joined with their neighbours. There are few: a part has one region.
 */
export class Arena {
  readonly memory: WebAssembly.Memory
  readonly #free: FreeRegion[] = []
  #end = 64
  #allocatedBytes = 0
  #views: Views

  constructor(
    memory: WebAssembly.Memory = new WebAssembly.Memory({ initial: 1, maximum: pagesMax, shared: true }),
  ) {
    this.memory = memory
    this.#views = new Views(memory.buffer)
  }

  /** The bytes of all regions. */
  get allocatedBytes(): number {
    return this.#allocatedBytes
  }

  /** Views of the whole memory. They do not cover what is allocated later. */
  get views(): Views {
    const { buffer } = this.memory
    if (buffer !== this.#views.buffer) this.#views = new Views(buffer)
    return this.#views
  }

  /** Returns the address of a new region, a multiple of 64, whose bytes are zero. @throws RangeError if memory is full */
  allocate(size: number): number {
    const bytes = Math.ceil((size + slackBytes) / 64) * 64
    const at = this.#free.findIndex((region) => region.bytes >= bytes)
    const address = at === -1 ? this.#extend(bytes) : this.#take(at, bytes)
    this.#allocatedBytes += bytes
    this.views.bytes.fill(0, address, address + bytes)
    return address
  }

  #extend(bytes: number): number {
    const address = this.#end
    const pages = Math.ceil((address + bytes) / pageBytes)
    const missing = pages - this.memory.buffer.byteLength / pageBytes
    if (missing > 0) this.memory.grow(missing)
    this.#end += bytes
    return address
  }

  #take(at: number, bytes: number): number {
    const region = this.#free[at]!
    const { address } = region
    region.address += bytes
    region.bytes -= bytes
    if (region.bytes === 0) this.#free.splice(at, 1)
    return address
  }

  /** Frees a region of `allocate`. */
  release(address: number, size: number): void {
    const bytes = Math.ceil((size + slackBytes) / 64) * 64
    this.#allocatedBytes -= bytes
    const at = this.#free.findIndex((region) => region.address > address)
    this.#free.splice(at === -1 ? this.#free.length : at, 0, { address, bytes })
    for (let index = this.#free.length - 1; index > 0; index -= 1) {
      const [before, after] = [this.#free[index - 1]!, this.#free[index]!]
      if (before.address + before.bytes !== after.address) continue
      before.bytes += after.bytes
      this.#free.splice(index, 1)
    }
    const last = this.#free.at(-1)
    if (last !== undefined && last.address + last.bytes === this.#end) {
      this.#end = last.address
      this.#free.pop()
    }
  }
}

/** Typed views of a memory. */
class Views {
  readonly buffer: ArrayBufferLike
  readonly bytes: Uint8Array
  readonly words: Uint32Array
  readonly floats: Float32Array
  readonly doubles: Float64Array

  constructor(buffer: ArrayBufferLike) {
    this.buffer = buffer
    this.bytes = new Uint8Array(buffer)
    this.words = new Uint32Array(buffer)
    this.floats = new Float32Array(buffer)
    this.doubles = new Float64Array(buffer)
  }
}
