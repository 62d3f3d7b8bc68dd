import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
const periodUs = 100_000
/** The unit of the times in /proc/<pid>/stat, on all current Linux systems. */
const ticksPerSecond = 100

/** The limits of a process; without one, it has no such limit. */
export interface Limits {
  readonly cores?: number | undefined
  /** Includes the file cache that the process fills. */
  readonly memoryBytes?: number | undefined
}

/**
 * Limits processes with Linux control groups: version 2 if it controls the CPU, otherwise version 1. Stopping and
 * continuing processes with signals would need no privileges, but every pause would add to the latencies.
 */
export class ControlGroups implements Disposable {
  readonly #groups: string[] = []

  /** Which control groups limit processes here, for the report. */
  static get means(): string {
    return isUnified() ? 'control groups, version 2' : 'control groups, version 1'
  }

  /** Limits a process. @throws Error if the system does not allow it */
  limit(pid: number, { cores, memoryBytes }: Limits): void {
    try {
      if (cores !== undefined) {
        const quotaUs = Math.round(cores * periodUs)
        if (isUnified()) this.#join(pid, 'cpu', 'cpu.max', `${quotaUs} ${periodUs}`)
        else this.#join(pid, 'cpu', 'cpu.cfs_quota_us', String(quotaUs))
      }
      if (memoryBytes !== undefined) {
        this.#join(pid, 'memory', isUnified() ? 'memory.max' : 'memory.limit_in_bytes', String(memoryBytes))
      }
    } catch (cause) {
      throw new Error('no limits can be set here: that needs Linux and root', { cause })
    }
  }

  #join(pid: number, controller: 'cpu' | 'memory', file: string, limit: string): void {
    const group = join(root, isUnified() ? '' : controller, `vicinal-bench-${pid}`)
    mkdirSync(group, { recursive: true })
    this.#groups.push(group)
    writeFileSync(join(group, file), limit)
    writeFileSync(join(group, 'cgroup.procs'), String(pid))
  }

  /** Removes the groups. Their processes must have ended. */
  [Symbol.dispose](): void {
    for (const group of this.#groups.splice(0)) {
      // A process that is still exiting blocks the removal. Leaving an empty group behind is harmless.
      try {
        rmdirSync(group)
      } catch {}
    }
  }
}

/** Whether the system uses version 2 with the CPU controller. */
function isUnified(): boolean {
  const path = join(root, 'cgroup.subtree_control')
  return existsSync(path) && readFileSync(path, 'utf8').split(/\s/).includes('cpu')
}

/** The CPU time that a process has used, in seconds. */
export function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  // User and system time: fields 14 and 15 of the file.
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}
