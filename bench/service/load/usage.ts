import { readdirSync, readFileSync } from 'node:fs'

/** The resources that a process has used so far. */
export interface UsageSoFar {
  readonly at: number
  /** CPU seconds by thread id. The main thread has the id of the process. */
  readonly threads: ReadonlyMap<number, number>
  readonly mainThread: number
  readonly rssBytes: number
}

/** The resources that a process used during a period. */
export interface Usage {
  /** The number of cores that it kept busy. */
  readonly processors: number
  /** The same for the main thread alone, and for every other thread that was busy at all, busiest first. */
  readonly mainThread: number
  readonly otherThreads: readonly number[]
  /** The resident memory at the end. */
  readonly rssBytes: number
}

/** The usage of a process; undefined without /proc. */
export function usageOf(pid: number): UsageSoFar | undefined {
  try {
    const ids = readdirSync(`/proc/${pid}/task`).map(Number)
    const threads = new Map(ids.map((id) => [id, processorSeconds(fieldsOf(`/proc/${pid}/task/${id}/stat`))]))
    const rssBytes = Number(fieldsOf(`/proc/${pid}/stat`)[21]) * pageBytes
    return { at: performance.now(), threads, mainThread: pid, rssBytes }
  } catch {
    // Only Linux has /proc. On other systems, the tables omit these figures.
    return undefined
  }
}

export function usageBetween(
  before: UsageSoFar | undefined,
  after: UsageSoFar | undefined,
): Usage | undefined {
  if (before === undefined || after === undefined) return undefined
  const seconds = (after.at - before.at) / 1000
  const share = (id: number): number => (after.threads.get(id)! - (before.threads.get(id) ?? 0)) / seconds
  const others = [...after.threads.keys()].filter((id) => id !== after.mainThread).map(share)
  const mainThread = share(after.mainThread)
  return {
    processors: others.reduce((sum, each) => sum + each, mainThread),
    mainThread,
    otherThreads: others.filter((each) => each > 0.005).sort((a, b) => b - a),
    rssBytes: after.rssBytes,
  }
}

/** The fields after the process name. The name is in brackets and may contain any character. */
function fieldsOf(path: string): string[] {
  const stat = readFileSync(path, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** User and system time, converted from ticks of 10 ms. */
function processorSeconds(fields: readonly string[]): number {
  return (Number(fields[11]) + Number(fields[12])) / 100
}

const pageBytes = 4096
