import { AttributeIndex } from '../../../src/attributes/attribute-index.ts'
import { DateTime, type Scalar } from '../../../src/base/attributes.ts'
import type { Bounds, Filter } from '../../../src/base/filter.ts'
import { median } from '../../shared/median.ts'
import type { Options } from '../options.ts'
import { firstUs, typicalPayload } from './typical-points.ts'

/** The cost of the attribute index, in time and memory. */
export interface Evaluation {
  readonly points: number
  readonly bytesPerPoint: number
  readonly insertedPerSecond: number
  readonly filters: readonly EvaluatedFilter[]
}

export interface EvaluatedFilter {
  readonly name: string
  readonly matching: number
  /** The median of the rounds. */
  readonly milliseconds: number
  readonly millisecondsMax: number
  /** The longest step in all rounds. A step blocks everything else on the thread. */
  readonly longestStep: number
  /** The time to take the result from the cache when nothing has changed. */
  readonly cachedMicroseconds: number
  readonly goalMilliseconds: number
}

/** Evaluates filters over points with six attributes each, without the rest of the engine. */
export function evaluate({ rows, quick }: Pick<Options, 'rows' | 'quick'>): Evaluation {
  const points = Math.min(rows ?? pointsMax, pointsMax)
  const index = new AttributeIndex({ findSlot: () => -1, copyId: () => {} })
  const empty = index.memoryBytes
  let microseconds = 0
  for (let slot = 0; slot < points; slot += 1) {
    const payload = typicalPayload(slot)
    const start = process.hrtime.bigint()
    index.set(slot, { payload, version: slot + 1 })
    microseconds += Number(process.hrtime.bigint() - start) / 1000
  }
  return {
    points,
    bytesPerPoint: (index.memoryBytes - empty) / points,
    insertedPerSecond: (1e6 * points) / microseconds,
    filters: typicalFilters.map((each) => evaluated(index, each, quick ? 3 : 25)),
  }
}

type TypicalFilter = Pick<EvaluatedFilter, 'name' | 'goalMilliseconds'> & { readonly filter: Filter }

function evaluated(
  index: AttributeIndex,
  { name, filter, goalMilliseconds }: TypicalFilter,
  rounds: number,
): EvaluatedFilter {
  const times: number[] = []
  let longestStep = 0
  let matching = 0
  for (let round = -warmUpRounds; round < rounds; round += 1) {
    const run = inSteps(index.evaluate(filter))
    matching = run.result.count
    if (round < 0) continue
    times.push(run.milliseconds)
    longestStep = Math.max(longestStep, run.longestStep)
  }
  inSteps(index.matching(filter))
  const cached = Array.from({ length: rounds }, () => inSteps(index.matching(filter)).milliseconds)
  return {
    name,
    matching,
    longestStep,
    goalMilliseconds,
    milliseconds: median(times)!,
    millisecondsMax: Math.max(...times),
    cachedMicroseconds: 1000 * median(cached)!,
  }
}

interface SteppedRun<Result> {
  readonly result: Result
  readonly milliseconds: number
  readonly longestStep: number
}

function inSteps<Result>(work: Generator<void, Result>): SteppedRun<Result> {
  let milliseconds = 0
  let longestStep = 0
  for (;;) {
    const start = process.hrtime.bigint()
    const step = work.next()
    const took = Number(process.hrtime.bigint() - start) / 1e6
    milliseconds += took
    longestStep = Math.max(longestStep, took)
    if (step.done === true) return { result: step.value, milliseconds, longestStep }
  }
}

function isIn(path: string, ...values: readonly Scalar[]): Filter {
  return { kind: 'condition', path, test: { op: 'in', values } }
}

function within(path: string, bounds: Bounds): Filter {
  return { kind: 'condition', path, test: { op: 'range', bounds } }
}

function not(of: Filter): Filter {
  return { kind: 'not', of }
}

const tenConditions: Filter = {
  kind: 'all',
  of: [
    isIn('inStock', true),
    {
      kind: 'any',
      of: [
        { kind: 'all', of: [isIn('category', 'category-3', 'category-4'), within('price', { lt: 40 })] },
        {
          kind: 'all',
          of: [isIn('brand', 'brand-7', 'brand-70', 'brand-700'), within('rating', { gte: 3 })],
        },
        { kind: 'all', of: [within('price', { gte: 10, lt: 20 }), isIn('rating', 5)] },
      ],
    },
    not(isIn('brand', 'brand-1', 'brand-2')),
    within('added', { gte: new DateTime(firstUs + 86_400_000_000 * 30) }),
    not({ kind: 'all', of: [isIn('category', 'category-9')] }),
  ],
}

export const typicalFilters: readonly TypicalFilter[] = [
  { name: 'equality of a text', filter: isIn('category', 'category-7'), goalMilliseconds: 0.2 },
  { name: 'range of a number', filter: within('price', { gte: 15, lt: 30 }), goalMilliseconds: 2 },
  { name: 'ten conditions', filter: tenConditions, goalMilliseconds: 5 },
]

const pointsMax = 1_000_000
const warmUpRounds = 3
