/** The polynomial of zlib's CRC-32, with its bits reversed. */
const polynomial = 0xedb88320

/** Tables for eight bytes at a time ("slicing by 8", Intel 2006). */
const tables: readonly Uint32Array[] = makeTables()

/** The CRC-32 of bytes that arrive in pieces. */
export class Crc32 {
  #state = 0xffffffff

  get value(): number {
    return (this.#state ^ 0xffffffff) >>> 0
  }

  add(bytes: Uint8Array): void {
    const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
      Uint32Array,
      Uint32Array,
      Uint32Array,
      Uint32Array,
      Uint32Array,
      Uint32Array,
      Uint32Array,
      Uint32Array,
    ]
    let state = this.#state
    let at = 0
    for (; at + 8 <= bytes.length; at += 8) {
      const a = state ^ (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24))
      state =
        t7[a & 0xff]! ^
        t6[(a >>> 8) & 0xff]! ^
        t5[(a >>> 16) & 0xff]! ^
        t4[a >>> 24]! ^
        t3[bytes[at + 4]!]! ^
        t2[bytes[at + 5]!]! ^
        t1[bytes[at + 6]!]! ^
        t0[bytes[at + 7]!]!
    }
    for (; at < bytes.length; at++) state = t0[(state ^ bytes[at]!) & 0xff]! ^ (state >>> 8)
    this.#state = state
  }
}

function makeTables(): readonly Uint32Array[] {
  const first = new Uint32Array(256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1
    first[byte] = crc
  }
  const made = [first]
  for (let table = 1; table < 8; table++) {
    const before = made[table - 1]!
    made.push(before.map((crc) => (crc >>> 8) ^ first[crc & 0xff]!))
  }
  return made
}
