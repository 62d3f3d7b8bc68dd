export const distanceMetrics = ['Cosine', 'Euclidean', 'Manhattan', 'Hamming'] as const
export type Metric = (typeof distanceMetrics)[number]

export function isMetric(text: string | null): text is Metric {
  return (distanceMetrics as readonly string[]).includes(text ?? '')
}

/** Computes a distance as the API defines it, for a server that returns only ids. Vectors must have the same length. */
export function distance(metric: Metric, a: readonly number[], b: readonly number[]): number {
  switch (metric) {
    case 'Cosine':
      return cosine(a, b)
    case 'Euclidean':
      return Math.sqrt(sum(a, b, (x, y) => (x - y) * (x - y)))
    case 'Manhattan':
      return sum(a, b, (x, y) => Math.abs(x - y))
    case 'Hamming':
      return sum(a, b, (x, y) => (x === y ? 0 : 1))
  }
}

function cosine(a: readonly number[], b: readonly number[]): number {
  const product = sum(a, b, (x, y) => x * y)
  const lengths = Math.sqrt(sum(a, a, (x, y) => x * y) * sum(b, b, (x, y) => x * y))
  // Rounding can produce a value slightly below 0.
  return lengths === 0 ? 1 : Math.max(0, 1 - product / lengths)
}

function sum(a: readonly number[], b: readonly number[], term: (x: number, y: number) => number): number {
  let total = 0
  for (let index = 0; index < a.length; index++) total += term(a[index]!, b[index]!)
  return total
}
