/** A seeded random generator (mulberry32): every failure can be reproduced from its seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The seeds of a test, from `first` on: `few` of them in the suite, or TEST_SEEDS of them. */
export function fixedSeeds(few: number, first = 1): readonly number[] {
  return Array.from({ length: Number(process.env.TEST_SEEDS ?? few) }, (_, index) => first + index)
}

/** The items in random order. */
export function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

/** The kinds of test vectors; each has ties or extremes that the others lack. */
export const vectorKinds = ['continuous', 'small integers', 'awkward'] as const
export type VectorKind = (typeof vectorKinds)[number]

const awkwardValues = [
  0, -0, 1, -1, 3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, 1e-20, 1e20,
]

export function randomVector(random: () => number, dimension: number, kind: VectorKind): Float32Array {
  return Float32Array.from({ length: dimension }, () => {
    if (kind === 'continuous') return random() * 2 - 1
    if (kind === 'small integers') return Math.floor(random() * 3)
    return awkwardValues[Math.floor(random() * awkwardValues.length)]!
  })
}
