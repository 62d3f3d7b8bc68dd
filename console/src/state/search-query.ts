import { computed, type ReadonlySignal } from '@preact/signals'
import { isUuid } from '../../../src/base/point.ts'
import type { JsonObject } from '../api/types.ts'
import { type Shape, type ShapeTexts, shapeFields, shapeOf, shapeTexts } from '../lib/answer-shape.ts'
import { isMetric, type Metric } from '../lib/distance.ts'
import { parseFilter } from '../lib/filters.ts'
import { parseVector } from '../lib/vector-text.ts'
import { embeddingModel } from './collections.ts'
import { route } from './route.ts'

/** The query of the search view. The address holds it, so that a link to the page includes the query. */
export interface SearchQuery {
  readonly by: 'vector' | 'id' | 'text'
  readonly vectorText: string
  readonly id: string
  readonly text: string
  /** The words to rank by; empty for none. */
  readonly words: string
  /** What the vector counts beside the words, 0 to 1. */
  readonly balance: number
  readonly metric: Metric
  readonly limit: number
  /** Undefined for the server's default. */
  readonly ef: number | undefined
  readonly filter: JsonObject
  /** What shapes the answer: as typed, as it is sent, and what is wrong with what is not sent. */
  readonly texts: ShapeTexts
  readonly shape: Shape
  readonly faults: ShapeTexts
  /** Whether to compare the results with an exact search. */
  readonly compare: boolean
  /** How to show the results. */
  readonly form: ResultForm
}

export type ResultForm = 'rows' | 'cards'

const defaultLimit = 10
export const usualBalance = 0.5
export const maxLimit = 200

const ways = ['vector', 'id', 'text'] as const

export const searchQuery: ReadonlySignal<SearchQuery> = computed(() => {
  const { params } = route.value
  const metric = params.get('metric')
  const filter = parseFilter(params.get('filter') ?? '')
  const texts = shapeTexts(params)
  const by = ways.find((each) => each === params.get('by')) ?? wayOf(params)
  const hasTarget = (params.get(by) ?? '').trim() !== ''
  return {
    by,
    vectorText: params.get('vector') ?? '',
    id: params.get('id') ?? '',
    text: params.get('text') ?? '',
    words: params.get('words') ?? '',
    balance: shareIn(params.get('balance')) ?? usualBalance,
    metric: isMetric(metric) ? metric : 'Cosine',
    limit: Math.min(maxLimit, positive(params.get('limit')) ?? defaultLimit),
    ef: positive(params.get('ef')),
    filter: 'filter' in filter ? filter.filter : {},
    texts,
    ...shapeOf(texts, shapeFields, hasTarget),
    compare: params.get('compare') === '1',
    form: params.get('as') === 'cards' ? 'cards' : 'rows',
  }
})

/** How to search if the address does not say so: a text is the easiest to type, if the server can embed it. */
function wayOf(params: URLSearchParams): SearchQuery['by'] {
  if (params.has('id')) return 'id'
  if (params.has('vector')) return 'vector'
  return embeddingModel.value === undefined ? 'id' : 'text'
}

function shareIn(text: string | null): number | undefined {
  const value = Number(text)
  return text !== null && value >= 0 && value <= 1 ? value : undefined
}

function positive(text: string | null): number | undefined {
  const value = Number(text)
  return text !== null && Number.isInteger(value) && value > 0 ? value : undefined
}

export type Near =
  | { readonly id: string }
  | { readonly vector: readonly number[] }
  | { readonly text: string }

/** What to search near, or what is wrong with the input; undefined if nothing was entered. */
export function nearOf(
  query: SearchQuery,
  dimension: number | undefined,
): Near | { readonly fault: string } | undefined {
  if (query.by === 'id') {
    if (query.id === '') return undefined
    return isUuid(query.id) ? { id: query.id.toLowerCase() } : { fault: 'An id must be a UUID.' }
  }
  if (query.by === 'text') return query.text === '' ? undefined : { text: query.text }
  if (query.vectorText.trim() === '') return undefined
  const parsed = parseVector(query.vectorText)
  if ('fault' in parsed) return parsed
  if (dimension !== undefined && parsed.vector.length !== dimension) {
    return { fault: `This vector has ${parsed.vector.length} numbers; the collection needs ${dimension}.` }
  }
  return parsed
}
