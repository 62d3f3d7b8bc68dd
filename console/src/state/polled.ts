import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { call, isAbort, messageOf } from '../api/client.ts'

export interface Polled<T> {
  /** Undefined until the first answer. */
  readonly value: Signal<T | undefined>
  readonly fault: Signal<string | undefined>
}

/** Asks for something again and again while the page is visible and the component is there. */
export function usePolled<T>(path: string, periodMs: number): Polled<T> {
  const value = useSignal<T | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  useEffect(() => {
    const stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = async (): Promise<void> => {
      try {
        if (value.peek() === undefined || document.visibilityState === 'visible') {
          value.value = await call<T>('GET', path, { signal: stopped.signal })
        }
        fault.value = undefined
      } catch (error) {
        if (isAbort(error)) return
        fault.value = messageOf(error)
      }
      if (!stopped.signal.aborted) timer = setTimeout(ask, periodMs)
    }
    // What is here is of another path.
    value.value = undefined
    ask()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [path])
  return { value, fault }
}
