import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Collects this thread's garbage now. Gigabytes of shared memory are freed only when every thread has collected its
 * references to them, and a sleeping thread never does so. Takes a few milliseconds in a thread with a small heap. No
 * frame on the stack may still reference what is to be freed.
 */
export function collectGarbage(): void {
  collect ??= exposed()
  collect()
}

let collect: (() => void) | undefined

/** V8 provides the function only in contexts created after the flag is set; there is no other way to request it. */
function exposed(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}
