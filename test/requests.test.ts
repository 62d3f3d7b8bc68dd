import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, afterEach, before, describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { ByteBudget } from '../src/base/budgets.ts'
import { DatabaseError } from '../src/base/errors.ts'
import { createLogger } from '../src/base/log.ts'
import { partitionCount } from '../src/base/partitions.ts'
import { connectToNats } from '../src/cluster/log/nats-connection.ts'
import { isRetryable } from '../src/cluster/reads/scatter.ts'
import {
  callBack,
  type MessageBus,
  NodeRequests,
  type NodeRequestsOptions,
  NothingDone,
  type PeerHandler,
  type PeerOperation,
  untilNameIsFree,
} from '../src/cluster/requests.ts'
import { statusOf } from './support/cluster-status.ts'
import { MemoryBus } from './support/memory-bus.ts'
import { openLog } from './support/nats-log.ts'
import { NatsServers, natsMissing } from './support/nats-servers.ts'
import { inParts, startTestCluster, type TestService, untilSettled } from './support/service.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const [echo, slow, failing, numbers] = ['search', 'get', 'list', 'points'] as const

/** Handlers of an answering node, with a record of the requests that it has seen. */
function answering(): { readonly handlers: Map<string, PeerHandler>; readonly seen: Seen } {
  const seen: Seen = { made: 0, closed: 0, aborted: [], asked: Promise.withResolvers<void>() }
  const handlers = new Map<string, PeerHandler>([
    [echo, async (body, { node }) => Buffer.concat([Buffer.from(`${node}:`), body])],
    [
      slow,
      (_, { signal }) =>
        new Promise((_, reject) => {
          seen.asked.resolve()
          signal.addEventListener('abort', () => {
            seen.aborted.push((signal.reason as DatabaseError).reason)
            reject(signal.reason as Error)
          })
        }),
    ],
    [
      failing,
      async (body) => {
        if (body.length === 0) throw new Error('with a secret in its text')
        throw new DatabaseError('precondition_failed', body.toString())
      },
    ],
    [
      numbers,
      async function* (body) {
        try {
          for (let number = 0; number < Number(body.toString()); number += 1) {
            seen.made += 1
            yield Buffer.from(String(number))
          }
        } finally {
          seen.closed += 1
        }
      },
    ],
  ])
  return { handlers, seen }
}

interface Seen {
  made: number
  closed: number
  readonly aborted: string[]
  readonly asked: PromiseWithResolvers<void>
}

/** Whether the other node may have done something of what it was asked. */
function isBegun(error: unknown): boolean {
  return hasReason('not_ready')(error) && !(error instanceof NothingDone)
}

const hasReason =
  (reason: string, text = /./) =>
  (error: unknown): boolean =>
    error instanceof DatabaseError && error.reason === reason && text.test(error.message)

/** @param busOf the bus of a node */
function requestsOver(busOf: () => MessageBus | Promise<MessageBus>): void {
  const opened: NodeRequests[] = []
  const open = async (node: string, options: Partial<NodeRequestsOptions> = {}): Promise<NodeRequests> => {
    const requests = new NodeRequests({
      bus: await busOf(),
      cluster: 'test',
      node,
      handlers: new Map(),
      logger,
      messageBytesMax: 4 * 1024 * 1024,
      ...options,
    })
    opened.push(requests)
    return requests
  }
  afterEach(() => {
    for (const requests of opened.splice(0)) requests.close()
  })

  it('carries many concurrent requests of any length, and their answers', async () => {
    const { handlers } = answering()
    const [a] = [await open('a'), await open('b', { handlers })]
    const bodies = [0, 1, 1000, 300_000, 3_000_000].map((length) => Buffer.alloc(length, length % 251))
    const answers = await Promise.all(bodies.map((body) => a.ask('b', echo, body)))
    for (const [at, body] of bodies.entries()) {
      assert.ok(answers[at]!.equals(Buffer.concat([Buffer.from('a:'), body])))
    }
  })

  it('counts answers where they are made until they are sent, and where they arrive', async () => {
    const budget = (): ByteBudget => {
      return new ByteBudget({ maxBytes: 4_000_000, what: 'answers', setting: 'MAX_BUFFERED_BYTES' })
    }
    const [answerBytes, arrivedBytes] = [budget(), budget()]
    const made: PeerHandler = async (body, { room }) => {
      room!.add(Number(body.toString()))
      return Buffer.alloc(Number(body.toString()))
    }
    const [a] = [await open('a'), await open('b', { answerBytes, handlers: new Map([[echo, made]]) })]
    const ask = async (bytes: number): Promise<number> => {
      const room = arrivedBytes.hold(0)
      try {
        await a.ask('b', echo, Buffer.from(String(bytes)), { room })
        return room.bytes
      } finally {
        room.release()
      }
    }
    assert.equal(await ask(2_000_000), 2_000_000)
    assert.deepEqual([answerBytes.usedBytes, arrivedBytes.usedBytes], [0, 0])
    const arrived = arrivedBytes.hold(2_000_000)
    // Another answer of this size has no room on the asking node, which is not a reason to ask another node.
    await assert.rejects(ask(2_000_000), (error) => hasReason('overloaded')(error) && !isRetryable(error))
    arrived.release()
    // The answering node learns later that its answer is not wanted.
    while (answerBytes.usedBytes > 0) await new Promise(setImmediate)
    const held = answerBytes.hold(3_000_000)
    await assert.rejects(ask(1_500_000), (error) => hasReason('overloaded')(error) && isRetryable(error))
    held.release()
    assert.equal(answerBytes.usedBytes, 0)
    assert.equal(await ask(10), 10)
  })

  it('carries requests in both directions at the same time', async () => {
    const { handlers } = answering()
    const [a, b] = [await open('a', { handlers }), await open('b', { handlers })]
    const answers = await Promise.all([
      a.ask('b', echo, Buffer.from('1')),
      b.ask('a', echo, Buffer.from('2')),
    ])
    assert.deepEqual(answers.map(String), ['a:1', 'b:2'])
  })

  it('returns errors of the other node with their reasons, and without its secrets', async () => {
    const { handlers } = answering()
    const [a] = [await open('a'), await open('b', { handlers })]
    await assert.rejects(
      a.ask('b', failing, Buffer.from('version is 3')),
      hasReason('precondition_failed', /^version is 3$/),
    )
    await assert.rejects(a.ask('b', failing, Buffer.alloc(0)), (error) => !/secret/.test(String(error)))
    await assert.rejects(
      a.ask('b', 'nothing' as PeerOperation, Buffer.alloc(0)),
      (error) => error instanceof NothingDone && /request nothing/.test(error.message),
    )
    await assert.rejects(
      a.ask('b', failing, Buffer.from('version is 3')),
      (error) => !(error instanceof NothingDone),
    )
  })

  it('notifies the other node of cancellation and of an expired deadline', async () => {
    const { handlers, seen } = answering()
    const [a] = [await open('a'), await open('b', { handlers })]
    const stop = new AbortController()
    const asked = a.ask('b', slow, Buffer.alloc(0), { signal: stop.signal })
    await seen.asked.promise
    stop.abort(new DatabaseError('cancelled', 'enough'))
    await assert.rejects(asked, hasReason('cancelled', /enough/))
    await assert.rejects(a.ask('b', slow, Buffer.alloc(0), { timeoutMs: 20 }), hasReason('deadline_exceeded'))
    while (seen.aborted.length < 2) await new Promise(setImmediate)
    assert.equal(seen.aborted[0], 'cancelled')
    await assert.rejects(
      a.ask('b', slow, Buffer.alloc(0), { signal: AbortSignal.abort() }),
      hasReason('cancelled'),
    )
  })

  it('limits concurrent calls and the length of requests and answers', async () => {
    const { handlers } = answering()
    const [a] = [
      await open('a', { messageBytesMax: 2_000_000 }),
      await open('b', { handlers, messageBytesMax: 1_000_000 }),
      await open('c', { handlers }),
    ]
    await assert.rejects(
      a.ask('b', echo, Buffer.alloc(1_000_001)),
      hasReason('request_too_large', /MAX_REQUEST_BYTES/),
    )
    assert.equal((await a.ask('b', echo, Buffer.alloc(999_999))).length, 1_000_001)
    await assert.rejects(
      a.ask('c', echo, Buffer.alloc(2_000_000)),
      hasReason('request_too_large', /answer of node c/),
    )
  })

  it('streams answers in many messages, produced as they are received', async () => {
    const { handlers, seen } = answering()
    const [a] = [await open('a'), await open('b', { handlers })]
    const got: number[] = []
    for await (const message of a.stream('b', numbers, Buffer.from('1000'))) {
      got.push(Number(message))
      assert.ok(seen.made <= got.length + 1, `${seen.made} messages were made, ${got.length} received`)
    }
    assert.deepEqual(
      got,
      Array.from({ length: 1000 }, (_, number) => number),
    )
    // If the receiver stops in the middle, no more messages are produced.
    seen.made = 0
    for await (const _ of a.stream('b', numbers, Buffer.from('1000'))) break
    await a.ask('b', echo, Buffer.alloc(0))
    assert.ok(seen.made < 3)
  })

  it('fail at once when the other node does not listen, and reach it when it is back', async () => {
    const { handlers } = answering()
    const [a, b] = [await open('a'), await open('b', { handlers })]
    assert.equal(String(await a.ask('b', echo, Buffer.from('1'))), 'a:1')
    b.close()
    await assert.rejects(a.ask('b', echo, Buffer.alloc(0)), hasReason('not_ready', /node b/))
    await open('b', { handlers })
    assert.equal(String(await a.ask('b', echo, Buffer.from('again'))), 'a:again')
  })

  it('end a stream whose node has ended', async () => {
    const { handlers } = answering()
    const [a, b] = [await open('a'), await open('b', { handlers })]
    const stream = a.stream('b', numbers, Buffer.from('1000'))[Symbol.asyncIterator]()
    await stream.next()
    b.close()
    await assert.rejects(stream.next(), isBegun)
  })

  it('tell a node whether requests reach it', async () => {
    const bus = await busOf()
    const [a] = [await open('a'), await open('b')]
    await a.checkReached()
    await a.ask('b', 'ping', callBack)
    // It may send requests, and gets none.
    const deaf: MessageBus = {
      request: (...asked) => bus.request(...asked),
      publish: (...message) => bus.publish(...message),
      subscribe: () => () => {},
    }
    const c = await open('c', { bus: deaf })
    await assert.rejects(c.checkReached(), /do not reach this node .* let it subscribe to vdb\.test\.c\.\*/)
    await assert.rejects(c.ask('a', 'ping', callBack), /node c of the cluster cannot be reached/)
    await assert.rejects(a.ask('c', 'ping', Buffer.alloc(0)), NothingDone)
    const check = { bus, cluster: 'test', logger, signal: new AbortController().signal, patienceMs: 0 }
    await untilNameIsFree({ ...check, node: 'c' })
    await assert.rejects(untilNameIsFree({ ...check, node: 'b' }), /another process runs as node b/)
  })

  it('reach nodes whatever their names', async () => {
    const { handlers } = answering()
    const a = await open('a node')
    for (const name of ['b.c', 'ü', '*', 'a>']) {
      await open(name, { handlers })
      assert.equal(String(await a.ask(name, echo, Buffer.from(name))), `a node:${name}`)
    }
  })
}

describe('requests between nodes in memory', () => {
  const bus = new MemoryBus()
  requestsOver(() => bus)

  it('take as long as the other node works, and end when it says nothing', async (t) => {
    const finished = Promise.withResolvers<Buffer>()
    await using nodes = twoNodes(bus, new Map([[slow, () => finished.promise]]))
    const clock = simulatedClock(t)
    const asked = nodes.a.ask('b', slow, Buffer.alloc(0))
    await clock.pass(120)
    // It finishes just after it has said that it works.
    clock.tick(3)
    finished.resolve(Buffer.from('done'))
    assert.equal(String(await asked), 'done')
    const unsubscribe = bus.subscribe('vdb.test.silent.*', () => {})
    const unanswered = assert.rejects(
      nodes.a.ask('silent', slow, Buffer.alloc(0)),
      hasReason('deadline_exceeded'),
    )
    await clock.pass(10)
    await unanswered
    unsubscribe()
  })

  it('keep an answer for a node that reads it later, but not for one that has ended', async (t) => {
    const { handlers, seen } = answering()
    await using nodes = twoNodes(bus, handlers)
    // A node that has ended says nothing, not even that it wants no more.
    const ended: MessageBus = {
      request: (...asked) => bus.request(...asked),
      publish: () => {},
      subscribe: () => () => {},
    }
    const c = new NodeRequests({ ...nodes.options, node: 'c', bus: ended })
    const clock = simulatedClock(t)
    const [later, never] = [nodes.a, c].map((node) => node.stream('b', numbers, Buffer.from('3')))
    for (const stream of [later!, never!]) assert.equal(String((await stream.next()).value), '0')
    await clock.pass(120)
    assert.equal(seen.closed, 1)
    const rest: string[] = []
    for await (const message of later!) rest.push(String(message))
    assert.deepEqual(rest, ['1', '2'])
    await assert.rejects(never!.next(), hasReason('not_ready', /forgotten/))
  })
})

/** Two nodes of which one answers. */
function twoNodes(bus: MessageBus, handlers: ReadonlyMap<string, PeerHandler>) {
  const options = { bus, cluster: 'test', handlers: new Map(), logger, messageBytesMax: 4 * 1024 * 1024 }
  const a = new NodeRequests({ ...options, node: 'a' })
  const b = new NodeRequests({ ...options, node: 'b', handlers })
  const close = async (): Promise<void> => {
    a.close()
    b.close()
  }
  return { options, a, [Symbol.asyncDispose]: close }
}

/** A clock that stands still between the seconds that pass, so that nodes can exchange their messages. */
function simulatedClock({ mock: { timers } }: TestContext) {
  timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const tick = (seconds: number): void => timers.tick(1_000 * seconds)
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      tick(1)
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
    }
  }
  return { tick, pass }
}

describe('requests between nodes over NATS', { skip: natsMissing() }, () => {
  let servers: NatsServers
  let cluster: Awaited<ReturnType<typeof openLog>>

  before(async () => {
    servers = await NatsServers.start({ count: 1 })
    cluster = await openLog(servers, 'test')
  })

  after(async () => {
    await cluster.close()
    await servers[Symbol.asyncDispose]()
  })

  requestsOver(() => cluster.bus)

  it('end when their connection is closed', async () => {
    await using asking = await openLog(servers, 'test')
    const asked = Promise.withResolvers<void>()
    asking.bus.subscribe('silent.*', () => asked.resolve())
    const waiting = asking.bus.request('silent.node', Buffer.alloc(0), 100_000)
    const ended = assert.rejects(waiting, isBegun)
    await asked.promise
    await asking.close()
    await ended
  })
})

describe('the requests of a cluster whose clients may only send small ones', () => {
  it('carries pages and partitions that are much larger than these', async () => {
    await using cluster = await startTestCluster(['a', 'b'], { ...inParts('1'), MAX_REQUEST_BYTES: '1024' })
    const [a] = cluster.services as [TestService]
    await untilSettled(cluster)
    // Each node has 100 KB of points, in requests that are almost as large as possible.
    const ids = Array.from({ length: partitionCount }, (_, partition) => {
      const firstByte = partition.toString(16).padStart(2, '0')
      return `${firstByte}000000-0000-4000-8000-000000000000`
    })
    const payload = { content: 'x'.repeat(800), content_type: 'Text' }
    await Promise.all(ids.map((id) => call(a, 'PUT', `/points/${id}`, { vector: [1, 2], payload })))
    // Node a reads the other half from b.
    assert.deepEqual(await listed(a), ids)
    await call(a, 'POST', '/cluster/nodes/b/drain')
    await untilSettled(cluster)
    const { nodes } = await statusOf(a)
    assert.deepEqual(
      nodes.map(({ name, partitions }) => [name, partitions?.owned]),
      [
        ['a', partitionCount],
        ['b', 0],
      ],
    )
    assert.deepEqual(await listed(a), ids)
  })

  async function call(service: TestService, method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${service.httpUrl}${path}`, {
      method,
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${response.status}: ${text}`)
    return text
  }

  /** The ids of a page with the contents of all points. */
  async function listed(service: TestService): Promise<readonly string[]> {
    const page = await call(service, 'POST', '/points/list', { limit: 1000, include: { payload: true } })
    const { points } = JSON.parse(page) as { readonly points: readonly { readonly id: string }[] }
    return points.map(({ id }) => id).sort()
  }
})

describe('the connection to the log servers', () => {
  it('goes to another server within seconds when one says nothing any more', async () => {
    await using stack = new AsyncDisposableStack()
    const lines = {
      info: '{"server_id":"x","version":"2.15.1","headers":true,"max_payload":1048576}',
      silent: 0,
    }
    const connections: { readonly port: number; readonly socket: Socket }[] = []
    const listening = async (): Promise<number> => {
      const server = createServer((socket) => {
        const { port } = server.address() as AddressInfo
        connections.push({ port, socket })
        socket.on('error', () => {})
        if (port === lines.silent) return
        socket.write(`INFO ${lines.info}\r\n`)
        socket.on('data', (bytes) => bytes.includes('PING') && socket.write('PONG\r\n'))
      })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      stack.defer(() => {
        for (const { socket } of connections) socket.destroy()
        server.close()
      })
      return (server.address() as AddressInfo).port
    }
    const urls = [await listening(), await listening()].map((port) => `nats://127.0.0.1:${port}`)
    const options = { urls, name: 'test', monitorUrls: ['http://127.0.0.1:1'] }
    const connection = await connectToNats(options, logger, new AbortController().signal)
    stack.defer(() => connection.close())
    const { port, socket } = connections.at(-1)!
    lines.silent = port
    // A server that was connected to just before is not tried first.
    await delay(200)
    const startMs = performance.now()
    socket.destroy()
    for await (const { type } of connection.status()) if (type === 'reconnect') break
    assert.notEqual(connections.at(-1)!.port, port)
    assert.ok(performance.now() - startMs < 4_500)
  })
})
