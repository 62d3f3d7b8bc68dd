import { readlinkSync } from 'node:fs'
import { setPriority } from 'node:os'

/**
 * Lets other threads of the process go before the one that calls this, which gets less of a processor that they
 * contend for, and gives way at once when one of them wakes up.
 *
 * Linux keeps a priority for each thread; elsewhere, or where it is not allowed, nothing happens: the priority is a
 * courtesy, and nothing depends on it.
 *
 * @param niceness 1 to 19, the larger the lower; each step is worth some 25 % of processor time
 */
export function lowerThreadPriority(niceness: number): void {
  try {
    setPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1)), niceness)
  } catch {
    // As said above.
  }
}
