import { createHook } from 'node:async_hooks'

/**
 * Keeps `process.nextTick` fast for as long as this thread runs; Node's streams call it about eight times for each
 * HTTP request. Idempotent.
 *
 * V8 keeps the hidden class of the objects that wait for a tick only while one of them exists. If an idle service
 * collects its garbage when none exists, the next object has a new hidden class. The compiled code of `nextTick` then
 * handles objects of any class, for the rest of the process, and takes two to six times as long (Node 24.21). An object
 * that is never released keeps the hidden class. The only access to such an object is a hook.
 */
export function keepTicksFast(): void {
  if (kept.length > 0) return
  const hook = createHook({
    init(_id, type, _trigger, resource) {
      if (type === 'TickObject') kept.push(resource)
    },
    // A hook of promises would make all of them slower, even after it is disabled.
    trackPromises: false,
  })
  hook.enable()
  process.nextTick(() => {})
  hook.disable()
}

const kept: object[] = []
