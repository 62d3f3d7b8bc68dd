import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Collects this thread's garbage now. Shared memory, gigabytes of it, is only freed when every thread has collected its
 * references, and a thread that sleeps never would. Takes a few milliseconds in a thread with a small heap. No frame on
 * the stack may still reference what is to be freed.
 */
export function collectGarbage(): void {
  collect ??= exposed()
  collect()
}

let collect: (() => void) | undefined

/** V8 has the function in contexts that are made after the flag is set; there is no other way to ask for it. */
function exposed(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}
