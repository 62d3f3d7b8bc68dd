import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { collectGarbage, keepTicksFast } from '../../src/base/runtime.ts'

/**
 * Compiles `process.nextTick` by calling it, collects garbage while no tick waits, and prints whether the compiled code
 * is still there. The argument `kept` calls `keepTicksFast` before.
 */
setFlagsFromString('--allow-natives-syntax')
/** V8's bit for code of its last compiler. */
const turboFan = 1 << 6
const statusOf = new Function('f', 'return %GetOptimizationStatus(f)') as (f: unknown) => number
if (process.argv[2] === 'kept') keepTicksFast()
while ((statusOf(process.nextTick) & turboFan) === 0) await ticks(20_000)
for (let round = 0; round < 3; round += 1) {
  await sleep(20)
  collectGarbage()
}
console.log((statusOf(process.nextTick) & turboFan) !== 0)

async function ticks(count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = count
  const next = (): void => {
    left -= 1
    if (left === 0) resolve()
    else process.nextTick(next)
  }
  next()
  await promise
  // The compiler runs beside this thread, and its code is taken over when the thread returns to its event loop.
  await sleep(1)
}
