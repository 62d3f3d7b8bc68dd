import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomVector, seededRandom } from '../support/random.ts'
import { GrpcConnection } from './connections.ts'
import { type Bound, type Growth, growths, type Held, type Sample } from './flatness.ts'
import type { ServerSample, SoakedPorts } from './server.ts'
import { dimension, type Stock, type Tally, visit } from './visits.ts'

export interface SoakOptions {
  readonly seed: number
  readonly requests: number
  /** Approximate number of stored points. */
  readonly points: number
  /** Number of samples. */
  readonly samples: number
  readonly bounds: Readonly<Record<Held, Bound>>
  readonly onSample?: (sample: Sample) => void
}

export interface SoakResult {
  readonly samples: readonly Sample[]
  readonly growths: readonly Growth[]
  readonly tally: Tally
}

/** Visits a service in a child process, and samples its resources between visits. */
export async function soak(options: SoakOptions): Promise<SoakResult> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-soak-'))
  const child = fork(join(import.meta.dirname, 'server.ts'), [dataDir], { execArgv: [] })
  try {
    const ports = await messageOf<SoakedPorts>(child)
    return await visitAndSample(child, ports, options)
  } finally {
    const ended = once(child, 'exit')
    if (child.connected) child.disconnect()
    if (child.exitCode === null && child.signalCode === null) await ended
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function visitAndSample(
  child: ChildProcess,
  ports: SoakedPorts,
  { seed, requests, points, samples: sampleCount, bounds, onSample }: SoakOptions,
): Promise<SoakResult> {
  const stock: Stock = { random: seededRandom(seed), ids: [], size: points }
  const tally: Tally = new Map()
  const samples: Sample[] = []
  await fill(ports, stock)
  for (let number = 1; number <= sampleCount; number += 1) {
    await visitUntil((requests * number) / sampleCount, ports, stock, tally)
    samples.push({ requests: answered(tally), ...(await sampleOf(child, ports)) })
    onSample?.(samples.at(-1)!)
  }
  return { samples, growths: growths(samples, bounds), tally }
}

async function fill(ports: SoakedPorts, stock: Stock): Promise<void> {
  const connection = new GrpcConnection(ports.grpc)
  while (stock.ids.length < stock.size) {
    const count = Math.min(1000, stock.size - stock.ids.length)
    const vectors = Array.from({ length: count }, () => randomVector(stock.random, dimension, 'continuous'))
    stock.ids.push(...(await connection.insert(vectors)).ids)
  }
  connection.close()
}

/** Runs several visitors concurrently; all have left when this resolves. */
async function visitUntil(requests: number, ports: SoakedPorts, stock: Stock, tally: Tally): Promise<void> {
  const visitor = async (): Promise<void> => {
    while (answered(tally) < requests) await visit(ports, stock, tally)
  }
  await Promise.all(Array.from({ length: visitorsAtOnce }, visitor))
}

const visitorsAtOnce = 16

function answered(tally: Tally): number {
  return [...tally.values()].reduce((sum, count) => sum + count, 0)
}

/** Takes a sample once the index has finished its pending work and the sockets are closed. */
async function sampleOf(child: ChildProcess, ports: SoakedPorts): Promise<ServerSample> {
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${ports.http}/metrics`, {
      headers: { connection: 'close' },
    })
    const text = await response.text()
    if (/^vicinal_index_waiting_points 0$/m.test(text) && /^vicinal_queued_queries 0$/m.test(text)) break
    await sleep(20)
  }
  await sleep(closingMs)
  child.send('sample')
  return await messageOf<ServerSample>(child)
}

/** The server notices a closed connection slightly later than the client. */
const closingMs = 50

async function messageOf<Message>(child: ChildProcess): Promise<Message> {
  return await new Promise((resolve, reject) => {
    const failed = (code: number | null): void => reject(new Error(`the service ended with code ${code}`))
    child.once('exit', failed)
    child.once('message', (message) => {
      child.off('exit', failed)
      resolve(message as Message)
    })
  })
}
