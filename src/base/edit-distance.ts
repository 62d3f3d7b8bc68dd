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
