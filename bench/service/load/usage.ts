import { readdirSync, readFileSync } from 'node:fs'

/** What a process has used so far. */
export interface UsageSoFar {
  readonly at: number
  /** Processor seconds by thread id; the main thread has the id of the process. */
  readonly threads: ReadonlyMap<number, number>
  readonly mainThread: number
  readonly rssBytes: number
}

/** What a process used over a time. */
export interface Usage {
  /** Processors that were busy with it. */
  readonly processors: number
  /** The same of its main thread alone, and of each other that was busy at all, the busiest first. */
  readonly mainThread: number
  readonly otherThreads: readonly number[]
  /** At the end. */
  readonly rssBytes: number
}

/** Undefined where there is no /proc. */
export function usageOf(pid: number): UsageSoFar | undefined {
  try {
    const ids = readdirSync(`/proc/${pid}/task`).map(Number)
    const threads = new Map(ids.map((id) => [id, processorSeconds(fieldsOf(`/proc/${pid}/task/${id}/stat`))]))
    const rssBytes = Number(fieldsOf(`/proc/${pid}/stat`)[21]) * pageBytes
    return { at: performance.now(), threads, mainThread: pid, rssBytes }
  } catch {
    // Only Linux has it; the tables then show no such figures.
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

/** The fields after the process name, which is in brackets and may contain anything. */
function fieldsOf(path: string): string[] {
  const stat = readFileSync(path, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** In user and in system mode, in ticks of 10 ms. */
function processorSeconds(fields: readonly string[]): number {
  return (Number(fields[11]) + Number(fields[12])) / 100
}

const pageBytes = 4096
