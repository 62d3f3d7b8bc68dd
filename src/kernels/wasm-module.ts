import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type V8Flags, v8Flags, withV8Flags } from '../base/runtime.ts'
import { PAGES_MAX } from './memory-format.ts'
import { selfTest, selfTestPages } from './self-test.ts'

export const kernelVariants = ['relaxed', 'simd'] as const
export type KernelVariant = (typeof kernelVariants)[number]

/** The compiled kernels. They can be posted to a worker thread, which then does not compile them again. */
export interface KernelModule {
  readonly variant: KernelVariant
  /** Whether V8 joined pairs of 128-bit operations into 256-bit ones. */
  readonly isWide: boolean
  readonly module: WebAssembly.Module
}

/**
 * Compiles the kernels: the requested build, or the fastest build that this engine accepts and runs correctly.
 *
 * V8 can join pairs of 128-bit operations into 256-bit ones, which makes a search 1.1 to 1.2 times as fast. V8 calls
 * this experimental, so it is used only if the result passes the self-test. All code is optimized immediately, not only
 * when a function has become hot, so that the tested code is the code that runs. Addresses are not checked, which would
 * keep V8 from joining operations (docs/decisions/index.md). Without flags, for a version of Node that CI does not run,
 * V8 compiles the kernels as it compiles all WebAssembly.
 *
 * What this process uses is compiled once: that takes 75 ms of processor time.
 *
 * @throws WebAssembly.CompileError if the requested build, or every build, is refused
 */
export function loadKernels(requested?: KernelVariant, isWide?: boolean, flags?: V8Flags): KernelModule {
  const isUsual = requested === undefined && isWide === undefined && flags === undefined
  if (!isUsual) return compileKernels(requested, isWide, flags ?? v8Flags())
  usual ??= compileKernels(undefined, undefined, v8Flags())
  return usual
}

let usual: KernelModule | undefined

function compileKernels(
  requested: KernelVariant | undefined,
  isWide: boolean | undefined,
  flags: V8Flags,
): KernelModule {
  const canWiden = flags.widenWasm.length > 0
  const widths = isWide === undefined ? (canWiden ? [true, false] : [false]) : [isWide]
  const builds = (requested === undefined ? kernelVariants : [requested]).flatMap((variant) =>
    widths.map((wide) => ({ variant, isWide: wide })),
  )
  let refusal: unknown
  for (const build of builds) {
    const url = new URL(`./generated/kernels-${build.variant}.wasm`, import.meta.url)
    const bytes = readFileSync(fileURLToPath(url))
    try {
      const kernels = { ...build, module: compile(bytes, build.isWide, flags) }
      const fault = faultOf(kernels)
      if (fault === undefined) return kernels
      refusal = new WebAssembly.CompileError(`the ${build.variant} kernels failed their self-test: ${fault}`)
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error
      refusal = error
    }
  }
  throw refusal
}

/** The flags apply to this module alone. */
function compile(bytes: Buffer, isWide: boolean, { optimizeWasm, widenWasm }: V8Flags): WebAssembly.Module {
  // V8 caches compiled modules by their bytes. An empty custom section distinguishes the two builds.
  const mark = Buffer.from([0, 2, 1, isWide ? 0x77 : 0x6e])
  return withV8Flags(
    isWide ? [...optimizeWasm, ...widenWasm] : optimizeWasm,
    () => new WebAssembly.Module(Buffer.concat([bytes, mark])),
  )
}

function faultOf(kernels: KernelModule): string | undefined {
  const memory = newKernelMemory(selfTestPages)
  return selfTest(instantiateKernels(kernels, memory), memory)
}

/**
 * Creates a memory for the kernels, shared between threads. Only address space is reserved for the pages that it can
 * grow by.
 *
 * @throws RangeError if the system has no more memory
 */
export function newKernelMemory(pages: number): WebAssembly.Memory {
  const descriptor = { address: 'i64', initial: BigInt(pages), maximum: BigInt(PAGES_MAX), shared: true }
  // TypeScript does not know memories with 64-bit addresses yet.
  return new WebAssembly.Memory(descriptor as unknown as WebAssembly.MemoryDescriptor)
}

/** Grows a memory of the kernels. @throws RangeError if the system has no more memory */
export function growKernelMemory(memory: WebAssembly.Memory, pages: number): void {
  memory.grow(BigInt(pages) as unknown as number)
}

/** Instantiates the kernels over a memory of `newKernelMemory`. */
export function instantiateKernels({ module }: KernelModule, memory: WebAssembly.Memory): KernelExports {
  // V8 reads the length of a memory from another thread before it subscribes to its growth. If the memory grows in
  // between, this thread would not know, and reading the new part would trap. Growing by zero pages updates the length.
  growKernelMemory(memory, 0)
  const abort = (): never => {
    throw new Error('a kernel called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as KernelExports
}

/** The exports of assembly/words.ts. Addresses are byte offsets in the memory of the instance. */
export interface WordsExports {
  /** Adds the best documents of a part to the pool of a query. */
  searchWords(query: number): void
  /** As `searchWords`, for given documents, u32 each in ascending order; their scores, u32 each, go to `out`. */
  searchDocuments(query: number, list: number, size: number, out: number): void
  /** Writes the scores of given documents to `out`. */
  scoreWords(query: number, list: number, size: number, out: number): void
  /** Writes the code plus one of the query's first term in given documents to `out`; 0 where the term is not. */
  findWords(query: number, list: number, size: number, out: number): void
}

let module: WebAssembly.Module | undefined

/** Instantiates the kernel of words over `memory`, which must be shared and at most 65,536 pages. */
export function instantiateWords(memory: WebAssembly.Memory): WordsExports {
  module ??= new WebAssembly.Module(readFileSync(new URL('./generated/words.wasm', import.meta.url)))
  const abort = (): never => {
    throw new Error('the kernel of words called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as WordsExports
}

interface NumberExports {
  readonly memory: WebAssembly.Memory
  textAddress(): number
  textBytesMax(): number
  numbersAddress(): number
  readNumbers(bytes: number, most: number): number
  hasOdd(): number
}

const comma = 0x2c
const openBracket = 0x5b
const closeBracket = 0x5d

/** Reads JSON arrays of numbers several times as fast as `JSON.parse`, with a kernel that has its own memory. */
export class NumberReader {
  readonly #kernel: NumberExports
  readonly #text: Buffer

  constructor() {
    const module = new WebAssembly.Module(readFileSync(new URL('./generated/numbers.wasm', import.meta.url)))
    this.#kernel = new WebAssembly.Instance(module).exports as unknown as NumberExports
    const { memory, textAddress, textBytesMax } = this.#kernel
    this.#text = Buffer.from(memory.buffer, textAddress(), textBytesMax())
  }

  /**
   * Parses the array in `bytes`, including brackets. Each number becomes the nearest float32 of its nearest double.
   * Returns 'too many' if there are more than `most` numbers, and undefined if it is not an array of numbers that float32
   * can hold, or is mostly space.
   */
  read(bytes: Uint8Array, most: number): Float32Array<ArrayBuffer> | 'too many' | undefined {
    if (bytes.length > this.#text.length) return this.#readLong(bytes, most)
    this.#text.set(bytes)
    return this.#readText(bytes.length, most)
  }

  /** Reads an array in parts that end at commas, each as an array. */
  #readLong(bytes: Uint8Array, most: number): ReturnType<NumberReader['read']> {
    const text = this.#text
    const all = new Float32Array(most)
    let count = 0
    for (let from = 0; from < bytes.length; ) {
      const isLast = bytes.length - from <= text.length
      const end = isLast ? bytes.length : bytes.lastIndexOf(comma, from + text.length - 1)
      if (end <= from) return undefined
      text.set(bytes.subarray(from, end))
      if (from > 0) text[0] = openBracket
      if (!isLast) text[end - from] = closeBracket
      const part = this.#readText(isLast ? end - from : end - from + 1, most - count)
      if (part === 'too many') return part
      // Nothing between two commas is no number.
      if (part === undefined || part.length === 0) return undefined
      all.set(part, count)
      count += part.length
      from = end
    }
    return all.slice(0, count)
  }

  #readText(bytes: number, most: number): ReturnType<NumberReader['read']> {
    const { memory, numbersAddress, readNumbers, hasOdd } = this.#kernel
    const count = readNumbers(bytes, most)
    if (count === -2) return 'too many'
    if (count === -1) return undefined
    const address = numbersAddress()
    if (hasOdd() === 0) return new Float32Array(memory.buffer.slice(address, address + 4 * count))
    const numbers = new Float32Array(JSON.parse(this.#text.toString('latin1', 0, bytes)))
    return numbers.every(Number.isFinite) ? numbers : undefined
  }
}

/**
 * The exports of src/kernels/assembly/index.ts. Addresses are byte offsets in the memory of the instance. `n` is the
 * padded row length in components, a multiple of 16. Metrics are numbers.
 */
export interface KernelExports {
  euclidean32(a: number, b: number, n: number): number
  manhattan32(a: number, b: number, n: number): number
  dot32(a: number, b: number, n: number): number
  hamming(a: number, b: number, n: number): number
  dot64(a: number, b: number, n: number): number
  distance64(metric: number, a: number, b: number, n: number, aa: number, bb: number): number
  /** Binds the instance to a segment's columns, given the header of any of its graphs. `attachGraph` includes this. */
  attachColumns(header: number): void
  /** Needs `attachColumns`. */
  scan(
    metric: number,
    query: number,
    queryNorm: number,
    rows: number,
    from: number,
    to: number,
    pool: number,
    k: number,
    count: number,
  ): number
  /** Needs `attachColumns`. */
  offerRow(
    metric: number,
    query: number,
    queryNorm: number,
    row: number,
    sequence: number,
    slot: number,
    pool: number,
    k: number,
    count: number,
  ): number
  /** As `scan`, but only for slots that match the filter. */
  readonly scanMatching: KernelExports['scan']
  /**
   * Limits searches and scans to the slots whose bits are set, until the next call.
   *
   * @param bitmap address of the bitmap, a multiple of 8; 0 for no limit
   * @param walkMax a walk gives up once it has compared more slots
   */
  setFilter(bitmap: number, walkMax: number): void
  /** Returns how many bits of slots [from, to) are set in the filter. */
  countMatching(from: number, to: number): number
  sortPool(pool: number, k: number, count: number): void
  encodeStored(row: number, n: number, width: number, code: number): void
  encodeQuery(row: number, n: number, width: number, code: number): void
  /** Writes the dot products of `query` with four rows of codes as i32 to `out`; `spill` is 128 bytes of scratch. */
  dotCodes(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Encodes a row in four-bit codes; `width` is a multiple of 64. */
  encodeNibbles(row: number, n: number, width: number, code: number): void
  /** As `dotCodes`, for rows of four-bit codes; `n` is the number of bytes of a row. */
  dotNibbles(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Encodes the row at an address as the code of a slot. Needs `attachColumns`. */
  encodeRow(row: number, slot: number): void
  /** Writes the hash of the row at an address as that of a slot. Needs `attachColumns` to columns with hashes. */
  hashRow(row: number, slot: number): void
  /** Binds the instance to a graph and a thread's lane. The functions below need it. */
  attachGraph(header: number, scratch: number, pool: number, visited: number): void
  insertSlot(slot: number, level: number, distanceKind: number): number
  searchGraph(
    metric: number,
    distanceKind: number,
    query: number,
    queryNorm: number,
    ef: number,
    reach: number,
    rerank: number,
    nearest: number,
    k: number,
    hidden: number,
  ): number
  walkGraph(
    metric: number,
    distanceKind: number,
    query: number,
    queryNorm: number,
    ef: number,
    reach: number,
    rerank: number,
    k: number,
    hidden: number,
  ): void
  /** Begins a scan by codes of the slots that match the filter; see assembly/graph-search.ts. */
  beginCodeScan(metric: number, distanceKind: number, query: number, queryNorm: number, breadth: number): void
  scanCodes(
    metric: number,
    query: number,
    queryNorm: number,
    from: number,
    to: number,
    breadth: number,
    nearest: number,
    k: number,
    count: number,
  ): number
  finishCodeScan(
    metric: number,
    query: number,
    queryNorm: number,
    nearest: number,
    k: number,
    count: number,
  ): number
  /** Returns how many slots the last walk or scan by codes compared. */
  comparedCount(): number
  /** Returns how many slots the last search measured exactly, without the slots that wait to be linked. */
  measuredCount(): number
  /** Returns 1 if the last walk with a filter ended because a scan of the matching slots is cheaper. */
  hasGivenUp(): number
  /** Returns the next slot to measure exactly; -1 if there is none. */
  nextToRerank(nearest: number, k: number, count: number): number
  /** Writes the code of a slot whose row is in memory. */
  encodeSlot(slot: number): void
  /** Writes to `out` the float32 distances of a stored slot to the slots of a list of u32, by a distance kind. */
  distancesFrom(slot: number, distanceKind: number, list: number, count: number, out: number): void
  /** Returns the exact (float64) distance of two slots whose rows are in memory. */
  exactDistance(metric: number, a: number, b: number): number
  /** Repairs about `most` lists. Returns the slot to continue from. */
  repairRange(from: number, to: number, distanceKind: number, most: number): number
  releaseLeaving(): void
  /** Reconnects a slot. Returns 1 if the slot was unreachable and got a link. */
  reconnect(slot: number, distanceKind: number): number
}
