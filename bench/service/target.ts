import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import packageJson from '../../package.json' with { type: 'json' }
import type { LoadPlan, LoadResult, Transport, WireRequest } from './load-plan.ts'
import { type Usage, usageBetween, usageOf } from './usage.ts'
import type { Workload } from './workloads.ts'

export interface Ports {
  readonly grpc: number
  readonly http: number
}

export interface Filled {
  /** Until every row was stored. */
  readonly seconds: number
  /** Until every row was in the index, where the target says so. */
  readonly indexedSeconds: number
}

/** A server under load. */
export interface Target extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  readonly ports: Partial<Ports>
  /** Stores the rows, and resolves when they are indexed; undefined for a target that stores nothing. */
  fill(rows: readonly Float32Array[]): Promise<Filled | undefined>
  /** Row numbers of the nearest; undefined for a target that stores nothing. */
  nearest(
    query: Float32Array,
    asked: { readonly k: number; readonly ef: number },
  ): Promise<readonly number[] | undefined>
  requests(workload: Workload, transport: Transport): readonly WireRequest[]
  /** Resolves when what was stored is indexed: nobody has to pay for the load before. */
  settled(): Promise<void>
}

export interface ServerProcess extends AsyncDisposable {
  readonly pid: number
  readonly ports: Ports
}

/** The service over an empty store, or the echo. */
export async function startServer(name: 'vicinal' | 'echo'): Promise<ServerProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-bench-'))
  const child = fork(join(import.meta.dirname, 'target-process.ts'), [name, dataDir], {
    execArgv: startFlags,
  })
  const ports = await messageOf<Ports>(child)
  return {
    pid: child.pid!,
    ports,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.disconnect()
      await exited
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Node's options, as `npm start` has them. */
const startFlags = packageJson.scripts.start.match(/--\S+/g) ?? []

export interface LoadMeasured {
  readonly result: LoadResult
  /** Of the server, while the load was counted; undefined where there is no /proc. */
  readonly usage: Usage | undefined
}

/** Runs a load from a process of its own, and measures a server meanwhile. */
export async function applyLoad(plan: LoadPlan, pid: number): Promise<LoadMeasured> {
  const child = fork(join(import.meta.dirname, 'load-generator.ts'), { serialization: 'advanced' })
  child.send(plan)
  await messageOf<'counting'>(child)
  const before = usageOf(pid)
  const result = await messageOf<LoadResult>(child)
  return { result, usage: usageBetween(before, usageOf(pid)) }
}

/** The next message of a process that must not end before it. */
export async function messageOf<Message>(child: ChildProcess): Promise<Message> {
  return await new Promise((resolve, reject) => {
    const failed = (code: number | null): void =>
      reject(new Error(`a process ended early, with code ${code}`))
    child.once('exit', failed)
    child.once('message', (message) => {
      child.off('exit', failed)
      resolve(message as Message)
    })
  })
}
