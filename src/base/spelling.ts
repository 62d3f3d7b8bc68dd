/** The name that JSON has for a field: `efMultiplier` is `ef_multiplier`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The fields of an object by their names in JSON, without those that are undefined. */
export function inSnakeCase<Value>(fields: { readonly [name: string]: Value | undefined }): {
  readonly [name: string]: Value
} {
  const entries = Object.entries(fields).filter((entry): entry is [string, Value] => entry[1] !== undefined)
  return Object.fromEntries(entries.map(([name, value]) => [snakeCase(name), value]))
}

/**
 * Finds the name that was probably meant: one that differs in a third of the letters at most. Case and punctuation do not
 * count, so `on_conflict` is near `onConflict`.
 */
export function nearestName<Name extends string>(written: string, names: readonly Name[]): Name | undefined {
  const letters = lettersOf(written)
  const distanceMax = Math.max(1, Math.floor(letters.length / 3))
  const [nearest] = names
    // The distance is at least the difference of the lengths. A written name can be very long.
    .filter((name) => Math.abs(lettersOf(name).length - letters.length) <= distanceMax)
    .map((name) => ({ name, distance: editDistance(lettersOf(name), letters) }))
    .filter(({ distance }) => distance <= distanceMax)
    .sort((one, other) => one.distance - other.distance)
  return nearest?.name
}

function lettersOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}

/** The restricted Damerau-Levenshtein distance: letters to insert, remove, replace, or swap with the next letter. */
export function editDistance(left: string, right: string): number {
  let before: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row += 1) {
    const next = [row]
    for (let column = 1; column <= right.length; column += 1) {
      const isSame = left[row - 1] === right[column - 1]
      const isSwapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      next[column] = Math.min(
        last[column]! + 1,
        next[column - 1]! + 1,
        last[column - 1]! + (isSame ? 0 : 1),
        isSwapped ? before[column - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = last
    last = next
  }
  return last[right.length]!
}
