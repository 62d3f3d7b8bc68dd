import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import packageJson from '../../../package.json' with { type: 'json' }
import { nextMessage } from '../../shared/next-message.ts'
import type { Transport, WireRequest } from '../load/load-plan.ts'
import type { Workload } from '../load/workloads.ts'

export interface Ports {
  readonly grpc: number
  readonly http: number
}

export interface Filled {
  /** Seconds until every row was stored. */
  readonly seconds: number
  /** Seconds until every row was in the index, if the target reports it. */
  readonly indexedSeconds: number
}

/** A server under load. */
export interface Target extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  readonly ports: Partial<Ports>
  /** Stores the rows, and resolves when they are indexed; undefined for a target that stores nothing. */
  fill(rows: readonly Float32Array[]): Promise<Filled | undefined>
  /** The row numbers of the nearest points; undefined for a target that stores nothing. */
  nearest(
    query: Float32Array,
    asked: { readonly k: number; readonly ef: number },
  ): Promise<readonly number[] | undefined>
  requests(workload: Workload, transport: Transport): readonly WireRequest[]
  /** Resolves when all stored points are indexed, so that one measurement does not slow down the next. */
  settled(): Promise<void>
}

export interface ServerProcess extends AsyncDisposable {
  readonly pid: number
  readonly ports: Ports
}

/**
 * Starts the service or the echo.
 *
 * @param folder the data directory, which is kept; an empty one that goes with the process if absent
 * @param threads the setting THREADS; its default if absent
 */
export async function startServer(
  name: 'vicinal' | 'echo',
  { folder, threads }: { readonly folder?: string; readonly threads?: number } = {},
): Promise<ServerProcess> {
  const dataDir = folder ?? (await mkdtemp(join(tmpdir(), 'vicinal-bench-')))
  const child = fork(join(import.meta.dirname, 'target-process.ts'), [name, dataDir], {
    execArgv: startFlags,
    env: { ...process.env, ...(threads === undefined ? {} : { THREADS: String(threads) }) },
  })
  const ports = await nextMessage<Ports>(child)
  return {
    pid: child.pid!,
    ports,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.disconnect()
      await exited
      if (folder === undefined) await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** The options for Node, as in `npm start`. */
const startFlags = packageJson.scripts.start.match(/--\S+/g) ?? []
