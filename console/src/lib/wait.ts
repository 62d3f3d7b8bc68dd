/** Resolves after a time, or as soon as `stop` aborts. It leaves no listener behind, so `stop` can be used for long. */
export function wait(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    stop.addEventListener('abort', done, { once: true })
    function done(): void {
      clearTimeout(timer)
      stop.removeEventListener('abort', done)
      resolve()
    }
  })
}
