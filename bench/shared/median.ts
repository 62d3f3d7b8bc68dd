/** The median; undefined if any value is, because the median of only some rounds would mislead. */
export function median(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b)
  if (known.length === 0 || known.length < values.length) return undefined
  const middle = known.length >> 1
  return known.length % 2 === 1 ? known[middle]! : (known[middle - 1]! + known[middle]!) / 2
}

/** The median over the rounds that have the figure; undefined if none has it. */
export function medianOfKnown<Round>(
  rounds: readonly Round[],
  figure: (round: Round) => number | undefined,
): number | undefined {
  return median(rounds.map(figure).filter((each) => each !== undefined))
}
