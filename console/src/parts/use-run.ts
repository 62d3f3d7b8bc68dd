import { useSignal } from '@preact/signals'
import { isAbort, messageOf } from '../api/client.ts'
import { useUnmount } from './use-unmount.ts'

interface Run<Input extends readonly unknown[]> {
  /** Starts the work; stops the former one. */
  readonly run: (...input: Input) => Promise<void>
  readonly stop: () => void
  readonly isRunning: boolean
  /** Why the last work failed. */
  readonly fault: string | undefined
}

/** Runs work that a user starts and can stop, one at a time. It is also stopped when the component leaves the page. */
export function useRun<Input extends readonly unknown[]>(
  work: (signal: AbortSignal, ...input: Input) => Promise<void>,
): Run<Input> {
  const fault = useSignal<string | undefined>(undefined)
  const running = useSignal<AbortController | undefined>(undefined)
  const stop = (): void => running.peek()?.abort()
  useUnmount(stop)
  return {
    async run(...input) {
      stop()
      const own = new AbortController()
      running.value = own
      fault.value = undefined
      try {
        await work(own.signal, ...input)
      } catch (error) {
        // A browser may report work that was stopped by an error of its own.
        if (!isAbort(error) && !own.signal.aborted) fault.value = messageOf(error)
      } finally {
        if (running.value === own) running.value = undefined
      }
    },
    stop,
    isRunning: running.value !== undefined,
    fault: fault.value,
  }
}
