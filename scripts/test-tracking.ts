/**
 * Loaded before Node's test runner. The runner follows all promises and timers to the suite or test that made them, which
 * takes a tenth of the suite's processor time. It needs this only to know the suite to which a test belongs, so it may
 * while a file is imported.
 */
import asyncHooks from 'node:async_hooks'

const { createHook } = asyncHooks
let hook: asyncHooks.AsyncHook | undefined
asyncHooks.createHook = (callbacks) => {
  asyncHooks.createHook = createHook
  hook = createHook(callbacks)
  return hook
}

/** Call before a suite is made and when it has been collected. */
export function track(isCollecting: boolean): void {
  if (isCollecting) hook?.enable()
  else hook?.disable()
}
