import { DateTime } from '../../../src/base/attributes.ts'
import type { Payload } from '../../../src/base/point.ts'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'

export const categories = 50
export const brands = 1000

/** Six attributes that a shop might store with a product. */
export function typicalPayload(row: number): Payload {
  const random = new GaussianRandom(seed, row)
  const below = (limit: number): number => Math.floor(random.uniform() * limit)
  const attributes = new Map<string, string | number | boolean | DateTime>([
    ['category', `category-${below(categories)}`],
    ['brand', `brand-${below(brands)}`],
    ['price', Math.round(100 * Math.exp(3 + random.next())) / 100],
    ['rating', 1 + below(5)],
    ['inStock', random.uniform() < 0.8],
    ['added', new DateTime(firstUs + below(yearSeconds) * 1_000_000)],
  ])
  return { contentType: 'Text', content: '', attributes }
}

const seed = 20_261_124
const yearSeconds = 31_536_000

/** 2026-01-01. */
export const firstUs = 1_767_225_600_000_000
