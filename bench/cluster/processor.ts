import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
const periodUs = 100_000
/** Of the numbers in /proc/<pid>/stat, on all Linux systems of today. */
const ticksPerSecond = 100

/**
 * Holds processes to a share of a core, with the control groups of Linux: version 2 where it has the processor, otherwise
 * version 1. Stopping and continuing processes by signals would do without privileges, but every pause would be part of the
 * latencies.
 */
export class ProcessorQuota implements Disposable {
  readonly #cores: number
  readonly #groups: string[] = []

  /** @param cores of each process; 0 holds none */
  constructor(cores: number) {
    this.#cores = cores
  }

  /** How processes are held, for the report. */
  get means(): string {
    if (this.#cores === 0) return 'no quota'
    return isUnified() ? 'control groups, version 2' : 'control groups, version 1'
  }

  /** @throws Error when the system does not let us */
  hold(pid: number): void {
    if (this.#cores === 0) return
    const group = join(root, isUnified() ? '' : 'cpu', `vicinal-bench-${pid}`)
    try {
      mkdirSync(group)
      this.#groups.push(group)
      const quotaUs = Math.round(this.#cores * periodUs)
      if (isUnified()) writeFileSync(join(group, 'cpu.max'), `${quotaUs} ${periodUs}`)
      else writeFileSync(join(group, 'cpu.cfs_quota_us'), String(quotaUs))
      writeFileSync(join(group, 'cgroup.procs'), String(pid))
    } catch (cause) {
      throw new Error('no quota can be set here (needs Linux and root): run with --quota 0', { cause })
    }
  }

  /** Removes the groups; the processes in them must have ended. */
  [Symbol.dispose](): void {
    for (const group of this.#groups.splice(0)) {
      // A process that is just ending keeps its group: an empty group is harmless.
      try {
        rmdirSync(group)
      } catch {}
    }
  }
}

/** Version 2, with the processor among what it controls. */
function isUnified(): boolean {
  const path = join(root, 'cgroup.subtree_control')
  return existsSync(path) && readFileSync(path, 'utf8').split(/\s/).includes('cpu')
}

/** Seconds of processor time that a process has used. */
export function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  // User and system time, the 14th and 15th of all.
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}
