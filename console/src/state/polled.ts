import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { call, isAbort, messageOf } from '../api/client.ts'

export interface Polled<T> {
  /** Undefined until the first response. */
  readonly value: Signal<T | undefined>
  readonly fault: Signal<string | undefined>
  /** Requests the value immediately, for example after a change. */
  readonly refresh: () => void
}

/** Polls a path of the API while the page is visible and the component is mounted. */
export function usePolled<T>(path: string, periodMs: number): Polled<T> {
  const value = useSignal<T | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const restart = useRef<() => void>(() => undefined)
  useEffect(() => {
    let stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = async (signal: AbortSignal): Promise<void> => {
      try {
        if (value.peek() === undefined || document.visibilityState === 'visible') {
          value.value = await call<T>('GET', path, { signal })
          fault.value = undefined
        }
      } catch (error) {
        if (isAbort(error)) return
        fault.value = messageOf(error)
      }
      if (!signal.aborted) timer = setTimeout(ask, periodMs, signal)
    }
    const stop = (): void => {
      stopped.abort()
      clearTimeout(timer)
    }
    restart.current = () => {
      stop()
      stopped = new AbortController()
      ask(stopped.signal)
    }
    // The current value belongs to another path.
    value.value = undefined
    ask(stopped.signal)
    return stop
  }, [path])
  return { value, fault, refresh: () => restart.current() }
}
