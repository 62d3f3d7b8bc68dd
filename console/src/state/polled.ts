import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { call, isAbort, messageOf } from '../api/client.ts'

export interface Polled<T> {
  /** Undefined until the first answer. */
  readonly value: Signal<T | undefined>
  readonly fault: Signal<string | undefined>
  /** Asks at once, after something was changed. */
  readonly refresh: () => void
}

/** Asks for something again and again while the page is visible and the component is there. */
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
        }
        fault.value = undefined
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
    // What is here is of another path.
    value.value = undefined
    ask(stopped.signal)
    return stop
  }, [path])
  return { value, fault, refresh: () => restart.current() }
}
