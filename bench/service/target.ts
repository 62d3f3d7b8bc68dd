import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LoadPlan, LoadResult, Transport, WireRequest } from './load-plan.ts'
import type { Workload } from './workloads.ts'

export interface Ports {
  readonly grpc: number
  readonly http: number
}

/** A server under load. */
export interface Target extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  readonly ports: Partial<Ports>
  /** Stores the rows, and resolves when they are indexed; gives the seconds until they were stored. */
  fill(rows: readonly Float32Array[]): Promise<number>
  /** Row numbers of the nearest; undefined for a target that stores nothing. */
  nearest(query: Float32Array, k: number): Promise<readonly number[] | undefined>
  requests(workload: Workload, transport: Transport): readonly WireRequest[]
}

/** Processor seconds and resident bytes of a process so far; undefined where there is no /proc. */
export function usageOf(pid: number): { readonly cpuSeconds: number; readonly rssBytes: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name, in brackets, may hold anything: fields count from behind it, and user time is the twelfth.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100,
      rssBytes: Number(fields[21]) * 4096,
    }
  } catch {
    // Only Linux has it; the table then shows no such figures.
    return undefined
  }
}

export interface ServerProcess extends AsyncDisposable {
  readonly pid: number
  readonly ports: Ports
}

/** The service over an empty store, or the echo. */
export async function startServer(name: 'vicinal' | 'echo'): Promise<ServerProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-bench-'))
  const child = fork(join(import.meta.dirname, 'target-process.ts'), [name, dataDir])
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

/** Runs a load from a process of its own. */
export async function applyLoad(plan: LoadPlan): Promise<LoadResult> {
  const child = fork(join(import.meta.dirname, 'load-generator.ts'), { serialization: 'advanced' })
  child.send(plan)
  return await messageOf<LoadResult>(child)
}

async function messageOf<Message>(child: ChildProcess): Promise<Message> {
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
