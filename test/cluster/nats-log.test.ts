import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { logServerWord } from '../../src/base/cluster-status.ts'
import { createLogger } from '../../src/base/log.ts'
import { LogGap, LogLost, UncertainAppend } from '../../src/cluster/log/commit-log.ts'
import { type NatsCluster, openNatsCluster } from '../../src/cluster/log/nats-cluster.ts'
import { openLog as open, take } from '../support/nats-log.ts'
import { NatsServers, natsMissing } from '../support/nats-servers.ts'
import { until, waitFor } from '../support/until.ts'

const skip = natsMissing()
const bytes = (text: string): Uint8Array => Buffer.from(text)

describe('a log on one server', { skip }, () => {
  let servers: NatsServers
  before(async () => {
    servers = await NatsServers.start({ count: 1 })
  })
  after(async () => {
    await servers?.[Symbol.asyncDispose]()
  })

  it('stores records in order, each once, for all nodes', async () => {
    await using left = await open(servers, 'order')
    await using right = await open(servers, 'order')
    assert.equal(left.log.id, right.log.id)
    assert.notEqual(left.log.id, '')
    const { servers: known, ...empty } = await left.log.bounds()
    assert.deepEqual(empty, { first: 1, last: 0, bytes: 0, bytesMax: 64 << 20 })
    assert.deepEqual(
      known?.map(({ is_leader, is_current, is_offline }) => [is_leader, is_current, is_offline]),
      [[true, true, false]],
    )
    const reading = take(right.log, 1, 3)
    assert.equal(await left.log.append(bytes('a'), { id: '1', partition: 7 }), 1)
    assert.equal(await right.log.append(bytes('b'), { id: '2', partition: 255 }), 2)
    assert.equal(await right.log.append(bytes('b'), { id: '2', partition: 255 }), 2)
    assert.equal(await left.log.append(bytes('c'), { id: '3', partition: undefined }), 3)
    assert.deepEqual(await reading, ['a', 'b', 'c'])
    assert.deepEqual(await take(left.log, 2, 2), ['b', 'c'])
    const { first, last } = await left.log.bounds()
    assert.deepEqual([first, last], [1, 3])
  })

  it('reports the same time of a record to all readers', async () => {
    await using node = await open(servers, 'times')
    const appended = Array.from({ length: 200 }, (_, id) =>
      node.log.append(bytes('x'), { id: `${id}`, partition: 0 }),
    )
    await Promise.all(appended)
    let count = 0
    for await (const entry of node.log.read(1, new AbortController().signal)) {
      const { appendedMs } = (await node.log.get(entry.position))!
      assert.equal(appendedMs, entry.appendedMs)
      assert.ok(Math.abs(entry.appendedMs - Date.now()) < 600_000)
      if (++count === 200) break
    }
    assert.equal(await node.log.get(201), undefined)
  })

  it('discards its oldest records for new ones, and reports them to their reader', async () => {
    await using node = await open(servers, 'full', { logBytesMax: 100_000 })
    for (let id = 1; id <= 50; id++) {
      assert.equal(await node.log.append(new Uint8Array(10_000), { id: `${id}`, partition: 0 }), id)
    }
    const { first, last, bytes: used } = await node.log.bounds()
    assert.equal(last, 50)
    assert.ok(used <= 100_000 && first > 40 && first < 50, `${first} ${used}`)
    await assert.rejects(take(node.log, 1, 1), (error) => {
      assert.ok(error instanceof LogGap)
      assert.deepEqual([error.wanted, error.found], [1, first])
      return true
    })
    assert.equal((await take(node.log, first, last - first + 1)).length, last - first + 1)
  })

  it('says which setting is too large for its servers', async () => {
    const logBytesMax = 8 * 2 ** 30
    await assert.rejects(open(servers, 'large', { logBytesMax }), /no space .*: set CLUSTER_LOG_BYTES/)
  })

  it('lets a reader go that its server does not answer', async () => {
    await using node = await open(servers, 'silent')
    const stop = new AbortController()
    await servers.pause(0)
    try {
      const asked = node.log.bounds().catch(() => {})
      const reading = take(node.log, 1, 1, stop.signal)
      stop.abort()
      const first = await Promise.race([reading.then(() => 'reader'), asked.then(() => 'time limit')])
      assert.equal(first, 'reader')
    } finally {
      servers.resume(0)
    }
  })

  it('is made only by who founds its cluster', async () => {
    const reasons: string[] = []
    const stop = new AbortController()
    const onUnfounded = (why: string): void => {
      reasons.push(why)
      stop.abort()
    }
    const logger = createLogger({ level: 'silent', pretty: false })
    const { urls, monitorUrls } = servers
    const options = { urls, monitorUrls, cluster: 'unfounded', name: 'test', logBytesMax: 1 << 20 }
    const joining = { ...options, mayFound: false, onUnfounded }
    await assert.rejects(openNatsCluster(joining, logger, stop.signal))
    assert.match(reasons[0]!, /no cluster unfounded: check CLUSTER_NAME, or run `vicinal cluster found`/)
    const { connect } = await import('@nats-io/transport-node')
    const { jetstreamManager } = await import('@nats-io/jetstream')
    const connection = await connect({ servers: [...urls] })
    const jsm = await jetstreamManager(connection)
    const names = (await jsm.streams.list().next()).map(({ config }) => config.name)
    assert.deepEqual(
      names.filter((name) => name.includes('unfounded')),
      [],
    )
    await connection.close()
    await (await open(servers, 'unfounded')).close()
    await (await open(servers, 'unfounded', { mayFound: false })).close()
  })

  it('is rejected if it is shorter than before or was created again', async () => {
    await using node = await open(servers, 'deleted')
    for (const id of ['1', '2']) await node.log.append(bytes(id), { id, partition: 0 })
    await assert.rejects(take(node.log, 9, 1), LogLost)
    const reading = take(node.log, 1, 3)
    reading.catch(() => {})
    const { connect } = await import('@nats-io/transport-node')
    const { jetstreamManager } = await import('@nats-io/jetstream')
    const connection = await connect({ servers: [...servers.urls] })
    const jsm = await jetstreamManager(connection)
    const { config } = await jsm.streams.info('VDB-deleted')
    await jsm.streams.delete('VDB-deleted')
    await assert.rejects(reading, LogLost)
    await assert.rejects(open(servers, 'deleted'), LogLost)
    // Somebody creates a stream that looks the same.
    await jsm.streams.add({ ...config, metadata: { 'vicinal-log': 'another' } })
    await assert.rejects(take(node.log, 1, 1), LogLost)
    await connection.close()
  })

  it('is rejected if it was set back and has grown again', async () => {
    await using servers = await NatsServers.start({ count: 1 })
    await using node = await open(servers, 'back')
    const stop = new AbortController()
    const read: number[] = []
    const reading = (async () => {
      for await (const { position } of node.log.read(1, stop.signal)) read.push(position)
    })()
    const lost = assert.rejects(reading, LogLost)
    await node.log.append(bytes('1'), { id: '1', partition: 0 })
    await until(async () => read.length === 1)
    const store = servers.storeOf(0)
    await servers.kill(0, 'SIGTERM')
    cpSync(store, `${store}-before`, { recursive: true })
    await servers.startOne(0)
    for (const id of ['2', '3']) await node.log.append(bytes(id), { id, partition: 0 })
    await until(async () => read.length === 3)
    await servers.kill(0, 'SIGTERM')
    rmSync(store, { recursive: true })
    cpSync(`${store}-before`, store, { recursive: true })
    // It is as long as it was before anybody looks at it again: what is done next goes another way.
    const { connect } = await import('@nats-io/transport-node')
    const { jetstream } = await import('@nats-io/jetstream')
    await servers.startOne(0)
    const connection = await connect({ servers: [...servers.urls] })
    for (const text of ['a', 'b', 'c', 'd']) await jetstream(connection).publish('vdb.back.0', text)
    await lost
    assert.deepEqual(read, [1, 2, 3])
    stop.abort()
    await connection.close()
  })

  it('is not opened if its stream settings can lose records', async () => {
    const { connect } = await import('@nats-io/transport-node')
    const { jetstreamManager } = await import('@nats-io/jetstream')
    const connection = await connect({ servers: [...servers.urls] })
    const jsm = await jetstreamManager(connection)
    await jsm.streams.add({ name: 'VDB-foreign', subjects: ['vdb.foreign.*'], max_age: 60e9 })
    await assert.rejects(open(servers, 'foreign'), /deny_delete is not set, max_age is set/)
    await connection.close()
  })

  it('continues after its server was killed, with all acknowledged records', async () => {
    await using node = await open(servers, 'killed')
    const reading = take(node.log, 1, 4)
    await node.log.append(bytes('1'), { id: '1', partition: 0 })
    await node.log.append(bytes('2'), { id: '2', partition: 0 })
    await servers.kill(0)
    // Nobody waits for a log without a server.
    await until(async () => node.log.isAway === true)
    const refused = { name: 'DatabaseError', reason: 'not_ready', message: /nothing was stored/ }
    await assert.rejects(node.log.append(bytes('3'), { id: '3', partition: 0 }), refused)
    await servers.startOne(0)
    await until(async () => node.log.isAway === false)
    assert.equal(await node.log.append(bytes('3'), { id: '3', partition: 0 }), 3)
    assert.equal(await node.log.append(bytes('4'), { id: '4', partition: 0 }), 4)
    assert.deepEqual(await reading, ['1', '2', '3', '4'])
  })

  it('reports that a record may have been stored if its server does not answer', async () => {
    await using node = await open(servers, 'silent', { appendTimeoutMs: 3_000 })
    await node.log.append(bytes('1'), { id: '1', partition: 0 })
    await servers.pause(0)
    try {
      await assert.rejects(node.log.append(bytes('2'), { id: '2', partition: 0 }), UncertainAppend)
    } finally {
      servers.resume(0)
    }
    assert.equal(await node.log.append(bytes('2'), { id: '2', partition: 0 }), 2)
    assert.deepEqual(await take(node.log, 1, 2), ['1', '2'])
  })

  it('stores documents that only a writer with the current revision can change', async () => {
    await using left = await open(servers, 'documents')
    await using right = await open(servers, 'documents')
    assert.equal(await left.documents.get('topology'), undefined)
    const first = await left.documents.put('topology', bytes('first'), 0)
    assert.equal(await right.documents.put('topology', bytes('other'), 0), undefined)
    const second = await right.documents.put('topology', bytes('second'), first!)
    assert.equal(await left.documents.put('topology', bytes('other'), first!), undefined)
    const { value, revision } = (await left.documents.get('topology'))!
    assert.deepEqual([Buffer.from(value).toString(), revision], ['second', second])
  })

  it('removes announcements that nodes do not repeat', async () => {
    const options = { announcementMs: 2_000 }
    await using node = await open(servers, 'nodes', options)
    await using other = await open(servers, 'nodes', options)
    const both = ['node a/1 A', 'node b B']
    const heard = async (at: typeof node): Promise<readonly string[]> =>
      [...(await at.documents.announced())].map(([name, value]) => `${name} ${Buffer.from(value)}`).sort()
    // A pause of the machine can outlast an announcement.
    await until(async () => {
      await node.documents.announce('node a/1', bytes('A'))
      await other.documents.announce('node b', bytes('B'))
      return isDeepStrictEqual([await heard(node), await heard(other)], [both, both])
    }, 'the announcements are heard')
    await until(async () => {
      await other.documents.announce('node b', bytes('B'))
      return isDeepStrictEqual(await heard(other), ['node b B'])
    }, 'the announcement is gone')
    // What was said before a node listened is read.
    await using late = await open(servers, 'nodes', options)
    await other.documents.announce('node b', bytes('C'))
    assert.deepEqual(await heard(late), ['node b C'])
    await until(
      async () =>
        await late.documents.announced().then(
          () => false,
          () => true,
        ),
      'a node that is not accepted hears nothing',
    )
  })
})

describe('a log on three servers', { skip }, () => {
  let servers: NatsServers
  before(async () => {
    servers = await NatsServers.start({ count: 3 })
  })
  after(async () => {
    await servers?.[Symbol.asyncDispose]()
  })

  it('says which of its servers do not have all of it', async () => {
    await using node = await open(servers, 'health')
    await node.log.append(bytes('1'), { id: '1', partition: 0 })
    // While the servers elect a leader, they do not answer.
    const statesOf = async (): Promise<readonly string[]> => {
      const { servers: all = [] } = (await node.log.bounds().catch(() => undefined)) ?? {}
      return all.map(logServerWord)
    }
    await until(async () => isDeepStrictEqual(await statesOf(), ['leader', 'current', 'current']))
    const { servers: [, follower] = [] } = await node.log.bounds()
    const index = ['n0', 'n1', 'n2'].indexOf(follower!.name)
    assert.ok(index >= 0)
    await servers.kill(index)
    await until(async () => (await statesOf()).includes('away, or without JetStream'), 'it is away')
    await servers.startOne(index)
    await until(async () => isDeepStrictEqual(await statesOf(), ['leader', 'current', 'current']))
  })

  it('is read on when the server that a reader is connected to, and has its consumer on, stays away', async () => {
    const away = 0
    await using writer = await open(servers, 'away', { urls: servers.urls.slice(1) })
    // Consumers are on random servers: that none of these is on the killed one happens once in 130 times.
    const readers = await Promise.all(
      Array.from({ length: 12 }, () => open(servers, 'away', { urls: [servers.urls[away]!] })),
    )
    const stop = new AbortController()
    const read = readers.map(() => 0)
    const reading = readers.map(async ({ log }, at) => {
      for await (const { position } of log.read(1, stop.signal)) read[at] = position
    })
    const reaches = async (id: string): Promise<void> => {
      const position = await writer.log.append(bytes(id), { id, partition: 0 })
      await until(async () => read.every((each) => each >= position))
    }
    await reaches('before')
    await servers.kill(away)
    await reaches('after')
    stop.abort()
    await Promise.all(reading)
    await Promise.all(readers.map((each) => each.close()))
    await servers.startOne(away)
  })

  it('loses no acknowledged record when its leader or all of its servers are killed', async () => {
    await using left = await open(servers, 'faults')
    await using right = await open(servers, 'faults')
    const stop = new AbortController()
    const acknowledged = new Map<number, string>()
    const write = async (node: NatsCluster, writer: string): Promise<void> => {
      for (let number = 0; !stop.signal.aborted; number++) {
        const id = `${writer}-${number}`
        try {
          acknowledged.set(await node.log.append(bytes(id), { id, partition: 0 }), id)
        } catch (error) {
          // Any error is allowed: the record is not acknowledged.
          assert.ok(error instanceof Error)
          // Without servers, the next one would fail in the same turn of the event loop.
          await nextTurn()
        }
      }
    }
    const read: string[] = []
    const reading = (async () => {
      for await (const { position, record } of right.log.read(1, stop.signal)) {
        read.push(Buffer.from(record).toString())
        assert.equal(position, read.length)
      }
    })()
    const writing = [write(left, 'left'), write(right, 'right'), write(right, 'third')]
    const goesOn = async (): Promise<void> => {
      const before = acknowledged.size
      await until(async () => acknowledged.size > before + 20 && read.length > before + 20)
    }
    await goesOn()
    const leader = await waitFor(() => servers.leaderOf('VDB-faults'))
    await servers.kill(leader)
    await goesOn()
    await servers.startOne(leader)
    await goesOn()
    await servers.killAll()
    await servers.startAll()
    await goesOn()
    const { last } = await waitFor(() => left.log.bounds().catch(() => undefined))
    await until(async () => read.length >= last)
    stop.abort()
    await Promise.all([...writing, reading])
    for (const [position, id] of acknowledged)
      assert.equal(read[position - 1] ?? id, id, `position ${position}`)
    assert.equal(new Set(read).size, read.length, 'a record was stored twice')
  })
})

describe('log servers', { skip }, () => {
  it('that do not fsync every record are refused', async () => {
    await using servers = await NatsServers.start({ count: 1, isLazy: true })
    await assert.rejects(open(servers, 'lazy'), /sync_interval: always/)
  })

  it('accept nodes that know the password', async () => {
    const extra = 'authorization { user: vicinal, password: "p@ss word" }'
    await using servers = await NatsServers.start({ count: 1, extra })
    const [url = ''] = servers.urls
    const urls = [url.replace('nats://', 'nats://vicinal:p%40ss%20word@')]
    await using node = await open(servers, 'secret', { urls })
    assert.equal(await node.log.append(bytes('1'), { id: '1', partition: 0 }), 1)
  })
})
