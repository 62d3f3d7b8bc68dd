/** Counts the bytes that the structures of an index use. A count with a parent also adds to its parent. */
export class MemoryCount {
  #parent: MemoryCount | undefined
  #bytes = 0

  constructor(parent?: MemoryCount) {
    this.#parent = parent
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @param bytes negative when memory is freed */
  add(bytes: number): void {
    this.#bytes += bytes
    this.#parent?.add(bytes)
  }

  /** Subtracts all bytes and detaches from the parent, so that later changes of the freed structures do not count. */
  release(): void {
    this.add(-this.#bytes)
    this.#parent = undefined
  }
}

/** A long array of 32-bit numbers, initially 0, in pages. Growing never copies more than one page. */
export class Uint32Pages {
  readonly #memory: MemoryCount
  readonly #pages: Uint32Array[] = []

  constructor(memory: MemoryCount) {
    this.#memory = memory
  }

  get(index: number): number {
    return this.#pages[index >>> pageBits]![index & pageMask]!
  }

  set(index: number, value: number): void {
    this.#pages[index >>> pageBits]![index & pageMask] = value
  }

  /** Makes room for the indexes below `length`. */
  reserve(length: number): void {
    if (length === 0) return
    const last = (length - 1) >>> pageBits
    while (this.#pages.length <= last) this.#pages.push(new Uint32Array(0))
    for (let page = last; page >= 0; page -= 1) {
      const wanted = page < last ? pageLength : length - last * pageLength
      if (this.#pages[page]!.length >= wanted) return
      this.#grow(page, wanted)
    }
  }

  #grow(page: number, wanted: number): void {
    const old = this.#pages[page]!
    const isFirst = page === 0
    const length = isFirst ? Math.max(lengthMin, 2 ** Math.ceil(Math.log2(wanted))) : pageLength
    const grown = new Uint32Array(length)
    grown.set(old)
    this.#pages[page] = grown
    this.#memory.add((length - old.length) * 4)
  }
}

const pageBits = 16
const pageLength = 1 << pageBits
const pageMask = pageLength - 1
const lengthMin = 4
