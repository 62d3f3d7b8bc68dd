import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { ReadScheduler } from './read-scheduler.ts'

/**
 * Floods a server with calls: each byte that a client sends is a call that takes a millisecond.
 *
 * @param isKnown whether the connections are throttled before their first call
 */
async function flood(
  connections: number,
  bytes: number,
  isKnown = true,
): Promise<{ most: number; received: number }> {
  const readScheduler = new ReadScheduler()
  let received = 0
  let most = 0
  let inThisRound = 0
  const server = createServer((socket) => {
    readScheduler.track(socket)
    if (isKnown) readScheduler.throttle(socket)
    socket.on('data', (data) => {
      if (inThisRound === 0) setImmediate(() => (inThisRound = 0))
      for (const _byte of data) {
        readScheduler.throttle(socket)
        readScheduler.noteWork()
        const end = performance.now() + 1
        while (performance.now() < end);
      }
      received += data.length
      inThisRound += data.length
      most = Math.max(most, inThisRound)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clients = Array.from({ length: connections }, () =>
    connect((server.address() as AddressInfo).port, '127.0.0.1'),
  )
  await Promise.all(clients.map((client) => once(client, 'connect')))
  for (const client of clients) client.end(Buffer.alloc(bytes))
  await Promise.all(clients.map((client) => once(client.resume(), 'close')))
  server.close()
  return { most, received }
}

describe('a read scheduler', () => {
  it('accepts only a few calls in a round of the event loop, and every call in the end', async () => {
    const { most, received } = await flood(100, 2)
    assert.equal(received, 200)
    // Three calls of a millisecond exceed the time limit; the connection that is being read is read to its end.
    assert.ok(most <= 8, `${most} calls in one round`)
  })

  it('does the same when no connection has sent a request before', async () => {
    const { most, received } = await flood(100, 2, false)
    assert.equal(received, 200)
    assert.ok(most <= 8, `${most} calls in one round`)
  })

  it('accepts all calls of a single connection', async () => {
    assert.equal((await flood(1, 50)).received, 50)
  })

  it('reads from every connection equally often while all of them always have a call', async () => {
    const counts = await rounds(40, 400)
    const [least, most] = [Math.min(...counts), Math.max(...counts)]
    assert.ok(most - least <= 2, `between ${least} and ${most} calls a connection`)
  })
})

/**
 * Calls of half a millisecond over connections whose clients send the next call when the last one is answered.
 *
 * @returns the number of calls of each connection when `total` have been made since each had its first
 */
async function rounds(connections: number, total: number): Promise<number[]> {
  const readScheduler = new ReadScheduler()
  const counts: number[] = []
  let hasBegun = false
  const done = Promise.withResolvers<void>()
  const server = createServer((socket) => {
    readScheduler.track(socket)
    readScheduler.throttle(socket)
    socket.on('error', () => socket.destroy())
    const place = counts.push(0) - 1
    socket.on('data', () => {
      readScheduler.noteWork()
      const end = performance.now() + 0.5
      while (performance.now() < end);
      counts[place]! += 1
      if (counts.length === connections && !hasBegun && counts.every((each) => each > 0)) {
        hasBegun = true
        counts.fill(0)
      }
      if (hasBegun && counts.reduce((sum, each) => sum + each) >= total) done.resolve()
      else socket.write('.')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clients = Array.from({ length: connections }, () =>
    connect((server.address() as AddressInfo).port, '127.0.0.1'),
  )
  await Promise.all(clients.map((client) => once(client, 'connect')))
  for (const client of clients) {
    client.on('data', () => client.write('.'))
    client.write('.')
  }
  await done.promise
  const seen = [...counts]
  for (const client of clients) client.destroy()
  server.close()
  return seen
}
