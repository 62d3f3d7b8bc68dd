import { fork } from 'node:child_process'
import { join } from 'node:path'
import { nextMessage } from '../../shared/next-message.ts'
import type { LoadPlan, LoadResult } from './load-plan.ts'
import { type Usage, usageBetween, usageOf } from './usage.ts'

export interface LoadMeasured {
  readonly result: LoadResult
  /** The server's resource usage while the load was counted; undefined without /proc. */
  readonly usage: Usage | undefined
}

/** Generates a load from another process, and measures the server's process at the same time. */
export async function applyLoad(plan: LoadPlan, pid: number): Promise<LoadMeasured> {
  const child = fork(join(import.meta.dirname, 'load-generator.ts'), { serialization: 'advanced' })
  child.send(plan)
  await nextMessage<'counting'>(child)
  const before = usageOf(pid)
  const result = await nextMessage<LoadResult>(child)
  return { result, usage: usageBetween(before, usageOf(pid)) }
}
