import { DateTime } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import { contentTypes } from '../../src/base/point.ts'
import { endUs } from './notes.ts'

/** Filters that together read everything in the attribute index about the points of `pointsOf`. */
export const probedFilters: readonly Filter[] = [
  { kind: 'condition', path: '$content_type', test: { op: 'in', values: [contentTypes[1]!] } },
  { kind: 'condition', path: '$expires_at', test: { op: 'range', bounds: { lt: new DateTime(endUs - 11) } } },
  { kind: 'condition', path: 'insert', test: { op: 'range', bounds: { gte: 4, lt: 19 } } },
  { kind: 'condition', path: 'places', test: { op: 'in', values: ['ä'] } },
  { kind: 'condition', path: 'places', test: { op: 'range', bounds: { gt: 0, lte: 3 } } },
  { kind: 'condition', path: 'places.odd', test: { op: 'in', values: [true] } },
  { kind: 'not', of: { kind: 'condition', path: 'places.odd', test: { op: 'exists' } } },
]
