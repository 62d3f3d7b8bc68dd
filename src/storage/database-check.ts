import { closeSync, openSync } from 'node:fs'
import { decodeBlock, emptyBlock, slotsPerBlock } from './key-layout.ts'
import { LmdbCheck } from './lmdb-check.ts'
import { LmdbFault } from './lmdb-pages.ts'

/**
 * Looks at points.mdb before LMDB does. Afterwards the file is sound as LMDB's, and there is a payload for each
 * live slot and for no other. Payloads themselves are not read: each has a checksum that is compared when
 * it is.
 *
 * @returns what is wrong; undefined for a sound file
 * @throws Error when the file cannot be read
 */
export function faultOfDatabase(path: string): string | undefined {
  const file = openSync(path, 'r')
  try {
    checkDatabase(new LmdbCheck(file))
    return undefined
  } catch (error) {
    if (error instanceof LmdbFault) return error.message
    throw error
  } finally {
    closeSync(file)
  }
}

function checkDatabase(check: LmdbCheck): void {
  const tables = check.tables(['live', 'meta', 'payloads'])
  const slots = new SlotSet()
  const live = new Map<number, Buffer>()
  const visits = {
    live: (block: number, page: Buffer, at: number, bytes: number) => {
      const bits = decodeBlock(block, page.subarray(at, at + bytes))
      if (bits === undefined) throw new LmdbFault(`block ${block} of live slots does not match its checksum`)
      live.set(block, bits)
    },
    // Its one record is checked when it is read.
    meta: () => {},
    payloads: (slot: number) => slots.add(slot),
  }
  for (const [name, tree] of tables) check.read(tree, { keyBytes: 4, visit: visits[name] })
  check.finish()
  checkLive(live, slots.blocks)
}

function checkLive(live: ReadonlyMap<number, Buffer>, payloads: ReadonlyMap<number, Buffer>): void {
  for (const block of new Set([...live.keys(), ...payloads.keys()])) {
    if ((live.get(block) ?? emptyBlock).equals(payloads.get(block) ?? emptyBlock)) continue
    const first = block * slotsPerBlock
    throw new LmdbFault(`of slots ${first} to ${first + slotsPerBlock - 1} not those have payloads that live`)
  }
}

/** Slots in blocks of bits, as the table `live` has them: no more memory than the slots that are there. */
class SlotSet {
  readonly blocks = new Map<number, Buffer>()
  #block = -1
  #bits: Buffer = emptyBlock

  add(slot: number): void {
    const block = Math.floor(slot / slotsPerBlock)
    if (block !== this.#block) {
      this.#block = block
      this.#bits = this.blocks.get(block) ?? Buffer.alloc(emptyBlock.length)
      this.blocks.set(block, this.#bits)
    }
    this.#bits[(slot % slotsPerBlock) >> 3]! |= 1 << (slot & 7)
  }
}
