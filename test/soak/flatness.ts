/** The resources that a server held at one moment without open connections. */
export interface Sample {
  /** Number of requests answered by then. */
  readonly requests: number
  readonly heapBytes: number
  /** Outside of V8's heap: buffers, and memory that native code has reported to V8. */
  readonly externalBytes: number
  readonly rssBytes: number
  /** Open files, including sockets. */
  readonly files: number
  /** Resources that keep the event loop alive: sockets, servers, timers, workers. */
  readonly resources: number
}

export const held = ['heapBytes', 'externalBytes', 'rssBytes', 'files', 'resources'] as const
export type Held = (typeof held)[number]

/** Growth accepted as noise over the judged part, in total and per request. */
export interface Bound {
  readonly noise: number
  readonly perRequest: number
}

export interface Growth {
  readonly what: Held
  /** Growth over the judged part, along the fitted line. */
  readonly growth: number
  readonly perRequest: number
  readonly bound: number
  readonly isFlat: boolean
}

/**
 * Judges whether a server's resources stay level. The first half of the samples is the warm-up: code is compiled, pools
 * and tables reach their size. A line is fitted to the rest, with the median slope between all pairs of samples (Theil
 * and Sen). A few outliers tilt it less than a least-squares line. Its growth from the first judged sample to the last
 * must stay within the bound.
 */
export function growths(samples: readonly Sample[], bounds: Readonly<Record<Held, Bound>>): Growth[] {
  const judged = samples.slice(Math.floor(samples.length / 2))
  if (judged.length < judgedMin) throw new Error(`${judged.length} samples are too few to judge by`)
  const span = judged.at(-1)!.requests - judged[0]!.requests
  return held.map((what) => {
    const perRequest = medianSlope(judged.map((sample) => [sample.requests, sample[what]]))
    const bound = bounds[what].noise + bounds[what].perRequest * span
    const growth = perRequest * span
    return { what, growth, perRequest, bound, isFlat: growth <= bound }
  })
}

const judgedMin = 5

function medianSlope(points: readonly (readonly [number, number])[]): number {
  const slopes = points.flatMap(([x, y], at) =>
    points.slice(at + 1).map(([later, value]) => (later === x ? 0 : (value - y) / (later - x))),
  )
  slopes.sort((a, b) => a - b)
  const middle = slopes.length >> 1
  return slopes.length % 2 === 1 ? slopes[middle]! : (slopes[middle - 1]! + slopes[middle]!) / 2
}
