import { randomUUID } from 'node:crypto'
import { randomVector } from '../support/random.ts'
import { RawHttp } from '../support/raw-http.ts'
import { frame, RawHttp2 } from '../support/raw-http2.ts'
import { apiKey } from '../support/service.ts'
import { type Answer, type Connection, GrpcConnection, HttpConnection } from './connections.ts'
import type { SoakedPorts } from './server.ts'

export const dimension = 32

/** The state that visitors share: the dice and the stored points. */
export interface Stock {
  readonly random: () => number
  readonly ids: string[]
  /** The approximate number of points to keep. */
  readonly size: number
}

/** Answers by request and status. */
export type Tally = Map<string, number>

/**
 * One visit over a new connection. Three of four visits send requests of every kind, valid and invalid, and close the
 * connection; the others cut it in the middle of a request.
 */
export async function visit(ports: SoakedPorts, stock: Stock, tally: Tally): Promise<void> {
  const kind = Math.floor(stock.random() * 8)
  const isGrpc = kind % 2 === 0
  if (kind < 2) {
    await (isGrpc ? leaveGrpcRudely(ports.grpc, stock) : leaveHttpRudely(ports.http, stock))
    note(tally, `${isGrpc ? 'grpc' : 'http'} left in the middle`)
    return
  }
  const connection = isGrpc ? new GrpcConnection(ports.grpc) : new HttpConnection(ports.http)
  const count = 5 + Math.floor(stock.random() * 30)
  for (let done = 0; done < count; done += 1) {
    const [name, operation] = operations[Math.floor(stock.random() * operations.length)]!
    const { status } = await operation(connection, stock)
    note(tally, `${isGrpc ? 'grpc' : 'http'} ${name}: ${status}`)
  }
  connection.close()
}

function note(tally: Tally, key: string): void {
  tally.set(key, (tally.get(key) ?? 0) + 1)
}

type Operation = (connection: Connection, stock: Stock) => Promise<Answer>

const operations: readonly (readonly [string, Operation])[] = [
  ['keep', (connection, stock) => keep(connection, stock, 1)],
  ['keep', (connection, stock) => keep(connection, stock, 1)],
  ['keep batch', (connection, stock) => keep(connection, stock, 5)],
  [
    'get',
    (connection, { ids, random }) => connection.get(ids[Math.floor(random() * ids.length)] ?? randomUUID()),
  ],
  ['get missing', (connection) => connection.get(randomUUID())],
  ['search', (connection, stock) => connection.search(vectorsOf(stock, 1), 10)],
  ['search', (connection, stock) => connection.search(vectorsOf(stock, 1), 300)],
  ['search batch', (connection, stock) => connection.search(vectorsOf(stock, 5), 10)],
  ['search wrong', (connection) => connection.search([Float32Array.of(1)], 10)],
  ['search given up', searchGivenUp],
]

/** Inserts or deletes, so that the number of points stays about the same. */
async function keep(connection: Connection, stock: Stock, count: number): Promise<Answer> {
  const { ids, size, random } = stock
  if (ids.length < size) {
    const answer = await connection.insert(vectorsOf(stock, count))
    ids.push(...answer.ids)
    return answer
  }
  const at = Math.floor(random() * ids.length)
  // Remove the id before the delete, so that no other visitor deletes the same point.
  const [id] = ids.splice(at, 1)
  return await connection.remove(id!)
}

/** Aborts a search before, during or after its execution. */
async function searchGivenUp(connection: Connection, stock: Stock): Promise<Answer> {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(), stock.random() * 5)
  try {
    return await connection.search(vectorsOf(stock, 40), 10, controller.signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Sends an invalid message, a wrong key and half of a message, then cuts the connection. */
async function leaveGrpcRudely(port: number, { random }: Stock): Promise<void> {
  using connection = new RawHttp2(port)
  const path = '/vectordb.VectorDB/SearchPoints'
  await connection.call(path, frame(Buffer.from('no message')), { authorization: apiKey })
  await connection.call(path, frame(Buffer.from('no key')), { authorization: 'wrong' })
  const stream = connection.open(path, { authorization: apiKey })
  // Cutting the connection causes a stream error, as intended.
  stream.on('error', () => {})
  stream.write(frame(new Uint8Array(1000)).subarray(0, 5 + Math.floor(random() * 900)))
  await new Promise((resolve) => setTimeout(resolve, 2))
}

async function leaveHttpRudely(port: number, { random }: Stock): Promise<void> {
  using connection = await RawHttp.open(port)
  connection.request('POST /points/search', ['content-type: application/json'], '{"vector": [1, 2')
  await connection.answer()
  const [vector] = [`{"vector":[${'0.5,'.repeat(200)}`]
  connection.write(
    `POST /points HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n`,
  )
  connection.write(vector!.slice(0, Math.floor(random() * vector!.length)))
  await new Promise((resolve) => setTimeout(resolve, 2))
}

function vectorsOf({ random }: Stock, count: number): Float32Array[] {
  return Array.from({ length: count }, () => randomVector(random, dimension, 'continuous'))
}
