import { type Signal, signal } from '@preact/signals'
import { call, isAbort, messageOf } from '../api/client.ts'
import { buckets, parseMetrics, quantile, type Samples, total } from '../lib/prometheus.ts'
import { wait } from '../lib/wait.ts'

/**
 * The readings of /metrics in the last 15 minutes. /metrics is read in every view while the page is visible, so that
 * the charts of the overview have a history when the user returns to them.
 */

export interface Moment {
  readonly timeS: number
  readonly samples: Samples
}

/** One point of the charts; null if nothing happened or nothing is known. */
export interface Activity {
  readonly timeS: number
  readonly searches: number | null
  readonly writes: number | null
  readonly searchP50Ms: number | null
  readonly searchP99Ms: number | null
  readonly commitP99Ms: number | null
}

const periodMs = 2000
const keptS = 15 * 60
/** The window of the quantiles. A shorter window has too few requests to be meaningful. */
const windowS = 10

const prefixes = ['vicinal_', 'process_resident_memory_bytes', 'process_start_time_seconds']
const searches = { operation: ['SearchPoints', 'SearchPointsBatch'] }
const writes = {
  operation: [
    'InsertVector',
    'InsertVectorsBatch',
    'DeletePoint',
    'PutPoint',
    'PatchPoint',
    'UpdatePoints',
    'DeletePoints',
  ],
}

let moments: Moment[] = []
export const latest: Signal<Samples | undefined> = signal(undefined)
export const activity: Signal<readonly Activity[]> = signal([])
export const metricsFault: Signal<string | undefined> = signal(undefined)

/** Starts to read /metrics. @returns a function that stops it */
export function watchMetrics(): () => void {
  const stopped = new AbortController()
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      if (document.visibilityState === 'visible') await readMetrics(stopped.signal)
      await wait(periodMs, stopped.signal)
    }
  }
  run()
  return () => stopped.abort()
}

async function readMetrics(stop: AbortSignal): Promise<void> {
  try {
    const text = await call<string>('GET', 'metrics', { signal: stop })
    add({ timeS: Date.now() / 1000, samples: parseMetrics(text, prefixes) })
    metricsFault.value = undefined
  } catch (error) {
    if (!isAbort(error)) metricsFault.value = messageOf(error)
  }
}

function add(moment: Moment): void {
  const last = moments.at(-1)
  // A new start time means that the server was restarted and its counters were reset, so older readings are useless.
  if (last !== undefined && startOf(last) !== startOf(moment)) {
    moments = []
    activity.value = []
  }
  moments.push(moment)
  const oldest = moment.timeS - keptS
  while (moments[0]!.timeS < oldest) moments.shift()
  latest.value = moment.samples
  if (last === undefined || moments.length < 2) return
  activity.value = [...activity.peek().filter(({ timeS }) => timeS >= oldest), activityOf(last, moment)]
}

function startOf({ samples }: Moment): number {
  return total(samples, 'process_start_time_seconds')
}

function activityOf(last: Moment, now: Moment): Activity {
  const start = moments.find(({ timeS }) => timeS >= now.timeS - windowS) ?? last
  const from = start === now ? last : start
  const seconds = now.timeS - last.timeS
  const rate = (match: typeof searches): number =>
    Math.max(0, requests(now, match) - requests(last, match)) / seconds
  const ms = (share: number, name: string, match?: typeof searches): number | null => {
    const value = quantile(share, buckets(from.samples, name, match), buckets(now.samples, name, match))
    return value === undefined ? null : value * 1000
  }
  return {
    timeS: now.timeS,
    searches: rate(searches),
    writes: rate(writes),
    searchP50Ms: ms(0.5, 'vicinal_request_duration_seconds', searches),
    searchP99Ms: ms(0.99, 'vicinal_request_duration_seconds', searches),
    commitP99Ms: ms(0.99, 'vicinal_commit_duration_seconds'),
  }
}

function requests({ samples }: Moment, match: typeof searches): number {
  return total(samples, 'vicinal_requests_total', match)
}

/** The growth of a counter since the oldest kept reading. */
export function growth(name: string, match?: Readonly<Record<string, string>>): number {
  const [first] = moments
  const last = moments.at(-1)
  return first === undefined || last === undefined
    ? 0
    : total(last.samples, name, match) - total(first.samples, name, match)
}
