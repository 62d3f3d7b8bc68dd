/**
 * A nearly minimal list of parts for which `fails` still returns true. It leaves out halves, quarters and so on down to
 * single parts while that holds (delta debugging, Zeller and Hildebrandt 2002, complements only).
 *
 * @param tries the maximum number of calls of `fails`
 */
export async function shrunk(
  parts: readonly Buffer[],
  fails: (parts: readonly Buffer[]) => Promise<boolean>,
  tries: number,
): Promise<readonly Buffer[]> {
  let smallest = parts
  let left = tries
  for (
    let size = Math.ceil(parts.length / 2);
    size >= 1 && left > 0;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < smallest.length && left > 0; left -= 1) {
      const without = [...smallest.slice(0, at), ...smallest.slice(at + size)]
      if (without.length > 0 && (await fails(without))) smallest = without
      else at += size
    }
  }
  return smallest
}

/** Splits a part into single bytes. */
export function bytesOf(part: Buffer): Buffer[] {
  return [...part].map((byte) => Buffer.of(byte))
}
