import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Client, credentials } from '@grpc/grpc-js'
import { ByteBudget } from '../src/base/budgets.ts'
import { DatabaseError } from '../src/base/errors.ts'
import { createLogger } from '../src/base/log.ts'
import { partitionCount } from '../src/base/partitions.ts'
import { PeerLink, type PeerLinkOptions } from '../src/cluster/peer-link.ts'
import type { PeerMethod } from '../src/cluster/peer-methods.ts'
import { linkPath } from '../src/cluster/peer-server.ts'
import type { PeerHandler } from '../src/cluster/peers.ts'
import { isRetryable } from '../src/cluster/scatter.ts'
import { TestAuthority } from './support/certificates.ts'
import { statusOf } from './support/cluster-status.ts'
import { freePort } from './support/free-ports.ts'
import { temporaryDirectory } from './support/process.ts'
import { inParts, startTestCluster, type TestService, untilSettled } from './support/service.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const [echo, slow, failing, numbers] = [2, 3, 4, 5] as [PeerMethod, PeerMethod, PeerMethod, PeerMethod]
const secret = 'a secret of the tests'

/** The links of one test, over real sockets. */
const links = new Map<string, PeerLink>()

async function open(node: string, options: Partial<PeerLinkOptions> = {}): Promise<PeerLink> {
  const link = await PeerLink.open({
    ...{ own: { cluster: 'test', node, secret }, host: 'localhost', port: 0, tls: undefined },
    ...{ handlers: new Map(), callsMax: 100, messageBytesMax: 4 * 1024 * 1024, timeoutMs: 60_000, logger },
    addressOf: (other) => (links.has(other) ? `localhost:${links.get(other)!.port}` : undefined),
    ...options,
  })
  links.set(node, link)
  return link
}

/** Handlers of an answering node, with a record of the requests that it has seen. */
function answering(): { readonly handlers: Map<number, PeerHandler>; readonly seen: Seen } {
  const seen: Seen = { made: 0, aborted: [], asked: Promise.withResolvers<void>() }
  const handlers = new Map<number, PeerHandler>([
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
        for (let number = 0; number < Number(body.toString()); number += 1) {
          seen.made += 1
          yield Buffer.from(String(number))
        }
      },
    ],
  ])
  return { handlers, seen }
}

interface Seen {
  made: number
  readonly aborted: string[]
  readonly asked: PromiseWithResolvers<void>
}

const hasReason =
  (reason: string, text = /./) =>
  (error: unknown): boolean =>
    error instanceof DatabaseError && error.reason === reason && text.test(error.message)

afterEach(() => {
  for (const link of links.values()) link.close()
  links.clear()
})

describe('the link between nodes', () => {
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
    await assert.rejects(a.ask('b', 99 as PeerMethod, Buffer.alloc(0)), hasReason('not_ready', /request 99/))
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

  it('keeps other calls when one is cancelled while the connection opens', async () => {
    const { handlers, seen } = answering()
    const [a] = [await open('a'), await open('b', { handlers })]
    const stop = new AbortController()
    const cancelled = a.ask('b', slow, Buffer.alloc(0), { signal: stop.signal })
    const others = ['1', '2'].map((body) => a.ask('b', echo, Buffer.from(body)))
    // The first byte has not been sent yet.
    stop.abort()
    await assert.rejects(cancelled, hasReason('cancelled'))
    assert.deepEqual((await Promise.all(others)).map(String), ['a:1', 'a:2'])
    assert.deepEqual(seen.aborted, [], 'the cancelled call was not sent')
  })

  it('limits concurrent calls and the length of requests and answers', async () => {
    const { handlers } = answering()
    const [a] = [
      await open('a', { callsMax: 2, messageBytesMax: 2_000_000 }),
      await open('b', { handlers, messageBytesMax: 1_000_000 }),
      await open('c', { handlers, callsMax: 1 }),
    ]
    const stop = new AbortController()
    const waiting = [1, 2].map(() => a.ask('c', slow, Buffer.alloc(0), { signal: stop.signal }))
    await assert.rejects(a.ask('c', echo, Buffer.alloc(0)), hasReason('overloaded', /CLUSTER_MAX_PEER_CALLS/))
    // Node c accepts only one of the two calls.
    await assert.rejects(Promise.race(waiting), hasReason('overloaded'))
    stop.abort()
    await Promise.allSettled(waiting)
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
      assert.ok(seen.made <= got.length + 8, `${seen.made} messages were made, ${got.length} received`)
    }
    assert.deepEqual(
      got,
      Array.from({ length: 1000 }, (_, number) => number),
    )
    // If the receiver stops in the middle, no more messages are produced.
    seen.made = 0
    for await (const _ of a.stream('b', numbers, Buffer.from('1000'))) break
    await a.ask('b', echo, Buffer.alloc(0))
    assert.ok(seen.made < 20)
  })

  it('fails running calls when the other node ends, and reconnects when it is back', async () => {
    const { handlers, seen } = answering()
    const port = await freePort()
    const [a, b] = [await open('a'), await open('b', { handlers, port })]
    const asked = a.ask('b', slow, Buffer.alloc(0))
    await seen.asked.promise
    b.close()
    await assert.rejects(asked, hasReason('not_ready', /node b/))
    await assert.rejects(a.ask('b', echo, Buffer.alloc(0)), hasReason('not_ready', /node b/))
    await open('b', { handlers, port })
    for (;;) {
      const answer = await a.ask('b', echo, Buffer.from('again')).catch(() => undefined)
      if (answer !== undefined) return assert.equal(String(answer), 'a:again')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })

  it('follows a node to another address, and refuses calls to an unknown node', async () => {
    const { handlers } = answering()
    const [a, b] = [await open('a'), await open('b', { handlers })]
    await a.ask('b', echo, Buffer.alloc(0))
    b.close()
    await open('b', { handlers })
    assert.equal(String(await a.ask('b', echo, Buffer.from('1'))), 'a:1')
    await assert.rejects(a.ask('z', echo, Buffer.alloc(0)), hasReason('not_ready', /node z/))
  })
})

describe('the link of a cluster whose clients may only send small requests', () => {
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

describe('access to the link', () => {
  it('requires the secret and name of the cluster, and the intended node', async () => {
    const { handlers } = answering()
    await open('b', { handlers })
    const strangers = [
      { cluster: 'test', node: 'x', secret: 'another secret' },
      { cluster: 'test', node: 'x', secret: undefined },
      { cluster: 'other', node: 'x', secret },
    ]
    for (const own of strangers) {
      const link = await open('x', { own })
      await assert.rejects(link.ask('b', echo, Buffer.alloc(0)), hasReason('not_ready'))
      link.close()
    }
    const { port } = links.get('b')!
    const a = await open('a', { addressOf: () => `localhost:${port}` })
    await assert.rejects(a.ask('c', echo, Buffer.alloc(0)), hasReason('not_ready'))
    assert.equal(String(await a.ask('b', echo, Buffer.alloc(0))), 'a:')
  })

  it('is refused to callers that send other messages than a node', async () => {
    const { handlers } = answering()
    const b = await open('b', { handlers })
    const client = new Client(`localhost:${b.port}`, credentials.createInsecure())
    const pass = (bytes: Buffer): Buffer => bytes
    for (const bytes of [Buffer.from([3, 1, 2, 0, 1]), Buffer.from([99]), Buffer.from([2, 0])]) {
      const stream = client.makeBidiStreamRequest<Buffer, Buffer>(linkPath, pass, pass)
      const failed = new Promise((resolve) => stream.on('error', resolve))
      stream.write(bytes)
      assert.match(String(await failed), /FAILED_PRECONDITION/)
    }
    client.close()
  })
})

describe('the link with certificates', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let good: TestAuthority
  let bad: TestAuthority

  before(async () => {
    directory = await temporaryDirectory()
    good = new TestAuthority(directory.path)
    bad = new TestAuthority(directory.path, 'bad')
  })

  after(async () => directory[Symbol.asyncDispose]())

  const own = (node: string): PeerLinkOptions['own'] => ({ cluster: 'test', node })

  it('needs no secret', async () => {
    const { handlers } = answering()
    const tls = good.sign('localhost')
    const [a] = [await open('a', { own: own('a'), tls }), await open('b', { own: own('b'), handlers, tls })]
    assert.equal(String(await a.ask('b', echo, Buffer.from('1'))), 'a:1')
  })

  it('accepts a common name of all nodes if one is configured', async () => {
    const { handlers } = answering()
    const tls = { ...good.sign('nodes.example'), name: 'nodes.example' }
    const [a] = [await open('a', { own: own('a'), tls }), await open('b', { own: own('b'), handlers, tls })]
    assert.equal(String(await a.ask('b', echo, Buffer.from('1'))), 'a:1')
  })

  it('refuses certificates of another authority or host, and missing ones, from either side', async () => {
    const { handlers } = answering()
    const tls = good.sign('localhost')
    await open('b', { own: own('b'), handlers, tls })
    const wrong = bad.sign('localhost')
    for (const tls of [wrong, { ...wrong, caFile: good.caFile }, undefined]) {
      const link = await open('x', { own: own('x'), tls })
      await assert.rejects(link.ask('b', echo, Buffer.alloc(0)), hasReason('not_ready'))
      link.close()
    }
    await open('c', { own: own('c'), handlers, tls: good.sign('elsewhere.example') })
    const a = await open('a', { own: own('a'), tls })
    await assert.rejects(a.ask('c', echo, Buffer.alloc(0)), hasReason('not_ready'))
    assert.equal(String(await a.ask('b', echo, Buffer.alloc(0))), 'a:')
  })

  it('names the setting of a missing file', async () => {
    const tls = { ...good.sign('localhost'), keyFile: '/nowhere' }
    await assert.rejects(open('a', { own: own('a'), tls }), /CLUSTER_TLS_KEY/)
  })
})
