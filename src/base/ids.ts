/**
 * Point ids: UUIDs, as text in requests and answers, as 16 bytes inside. The service assigns lower-case version 4 UUIDs
 * and accepts any well-formed UUID, in either case.
 */

export const idBytes = 16

/** Characters of an id as text. */
export const idLength = 36

/** Writes the 16 bytes of a well-formed id to `target` at `offset`. */
export function writeIdBytes(id: string, target: Uint8Array, offset: number): void {
  let at = offset
  for (let index = 0; index < idLength; index += 2) {
    if (id.charCodeAt(index) === 45) index += 1
    target[at] = (hexDigit(id.charCodeAt(index)) << 4) | hexDigit(id.charCodeAt(index + 1))
    at += 1
  }
}

/** The 16 bytes of a well-formed id. */
export function idToBytes(id: string): Uint8Array {
  const bytes = new Uint8Array(idBytes)
  writeIdBytes(id, bytes, 0)
  return bytes
}

/** The lower-case string form of the 16 bytes at `offset`. */
export function idFromBytes(bytes: Uint8Array, offset = 0): string {
  spellId(bytes, offset, spelled, 0)
  return spelled.toString('latin1')
}

/** Writes the 36 lower-case characters of the 16 bytes at `offset` to `target` at `at`, as ASCII. */
export function spellId(bytes: Uint8Array, offset: number, target: Uint8Array, at: number): void {
  for (let index = 0; index < idBytes; index += 1) {
    const digits = digitsOfByte[bytes[offset + index]!]!
    const first = at + digitsAt[index]!
    target[first] = digits >> 8
    target[first + 1] = digits & 0xff
  }
  for (const hyphen of hyphensAt) target[at + hyphen] = 45
}

const form = 'xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx'

/** Ids are written here first: sending a string that is concatenated from pieces takes three times as long. */
const spelled = Buffer.alloc(idLength)

/** The positions of each byte's two digits. */
const digitsAt: readonly number[] = [...form.matchAll(/xx/g)].map(({ index }) => index)

const hyphensAt: readonly number[] = [...form.matchAll(/-/g)].map(({ index }) => index)

/** Both digits of a byte, as character codes. */
const digitsOfByte: Uint16Array = Uint16Array.from({ length: 256 }, (_, byte) =>
  Buffer.from(byte.toString(16).padStart(2, '0')).readUInt16BE(),
)

/** The value of an ASCII hex digit in either case: letters have bit 6 set, and 'A' & 15 is 1. */
function hexDigit(code: number): number {
  return (code & 15) + (code >> 6) * 9
}
