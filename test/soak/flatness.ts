/** What a server held at one moment, when nobody had a connection to it. */
export interface Sample {
  /** Requests that it had answered by then. */
  readonly requests: number
  readonly heapBytes: number
  /** Outside of V8's heap: buffers, and what native parts told V8 of. */
  readonly externalBytes: number
  readonly rssBytes: number
  /** Open files, sockets included. */
  readonly files: number
  /** What keeps the event loop awake, counted by kind: sockets, servers, timers, workers. */
  readonly resources: number
}

export const held = ['heapBytes', 'externalBytes', 'rssBytes', 'files', 'resources'] as const
export type Held = (typeof held)[number]

/** What is let through as noise over the judged part, and for each request in it. */
export interface Bound {
  readonly noise: number
  readonly perRequest: number
}

export interface Growth {
  readonly what: Held
  /** Over the judged part, along the line that fits it. */
  readonly growth: number
  readonly perRequest: number
  readonly bound: number
  readonly isFlat: boolean
}

/**
 * Whether what a server holds stays level. The first half of the samples is warming up: code is compiled, pools
 * and tables take their size. Over the rest a line is laid, by the median of the slopes between every two
 * samples (Theil and Sen), which an odd sample here and there does not tilt as it tilts a least-squares line. What that line gains
 * from the first judged sample to the last must stay within the bound.
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
