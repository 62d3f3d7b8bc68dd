export const distanceMetrics = ['Cosine', 'Euclidean', 'Manhattan', 'Hamming'] as const
export type Metric = (typeof distanceMetrics)[number]

export function isMetric(text: string | null): text is Metric {
  return (distanceMetrics as readonly string[]).includes(text ?? '')
}
