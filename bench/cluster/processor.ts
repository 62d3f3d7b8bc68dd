import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
const periodUs = 100_000
/** The unit of the times in /proc/<pid>/stat, on all current Linux systems. */
const ticksPerSecond = 100

/**
 * Limits processes to a share of a core with Linux control groups: version 2 if it controls the CPU, otherwise version
 * 1. Stopping and continuing processes with signals would need no privileges, but every pause would add to the
 * latencies.
 */
export class ProcessorQuota implements Disposable {
  readonly #cores: number
  readonly #groups: string[] = []

  /** @param cores the limit of each process; 0 for no limit */
  constructor(cores: number) {
    this.#cores = cores
  }

  /** How processes are limited, for the report. */
  get means(): string {
    if (this.#cores === 0) return 'no quota'
    return isUnified() ? 'control groups, version 2' : 'control groups, version 1'
  }

  /** Limits a process. @throws Error if the system does not allow it */
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
