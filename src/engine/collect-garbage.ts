import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Collects this thread's garbage now. Gigabytes of shared memory stay for as long as one thread has not noticed that it
 * has dropped them, and a thread that sleeps would never notice. Takes some milliseconds in a thread with little of its
 * own. No frame on the stack may still hold what is to go.
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
