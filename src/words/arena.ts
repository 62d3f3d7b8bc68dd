/**
 * Regions of one memory, which the kernel of words reads.
 *
 * Free regions are kept in a list by address and joined with their neighbours. There are few: a part has one region.
 */

interface Region {
  address: number
  bytes: number
}

const pageBytes = 65_536
const pagesMax = 65_536
/** The vectors of the kernel may be read up to this far behind a region. */
const slackBytes = 64

export class Arena {
  readonly memory: WebAssembly.Memory
  readonly #free: Region[] = []
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
