import { useLayoutEffect } from 'preact/hooks'

/**
 * Stops work when a component leaves the page. The cleanup of a `useEffect` would run only after the next frame: a
 * response that arrives before it would start further work, for example the deletion of further points.
 *
 * @param stop called once. It must not use values of a later render, except through signals and refs
 */
export function useUnmount(stop: () => void): void {
  useLayoutEffect(() => stop, [])
}
