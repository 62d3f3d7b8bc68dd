import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryDocuments } from '../../../test/support/memory-log.ts'
import { until } from '../../../test/support/until.ts'
import { createLogger } from '../../base/log.ts'
import {
  type Announcement,
  checkSettings,
  type DecidingSettings,
  decidingSettings,
  Membership,
  settingsFault,
} from './membership.ts'
import { removeMember, setMemberState } from './ownership.ts'
import { fromJson, memberOf, toJson } from './topology.ts'

const logger = createLogger({ level: 'silent', pretty: false })

describe('membership', () => {
  it('enters all nodes that start at the same time, and returns what they announce', async () => {
    await using nodes = cluster()
    const { join } = nodes
    const members = await Promise.all(['a', 'b', 'c'].map((node, index) => join(node, index)))
    const { members: found, generation } = await members[0]!.topology()
    assert.deepEqual(Object.keys(found).sort(), ['a', 'b', 'c'])
    assert.equal(generation, 3)
    await until(async () => (await members[1]!.announced()).size === 3)
    assert.equal((await members[1]!.announced()).get('c')?.position, 2)
  })

  it('removes a member that is away, once', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    await join('a', 0)
    await (await join('away', 0)).close()
    assert.equal(await removeMember(documents, 'nobody'), false)
    const removed = await Promise.all(['away', 'away'].map((node) => removeMember(documents, node)))
    assert.deepEqual(removed.toSorted(), [false, true], 'of two removals at once, one finds the member')
  })

  it('knows no member that has never joined, whatever its name', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    const member = await join('a', 0)
    for (const name of ['constructor', '__proto__', 'b']) {
      assert.equal(await setMemberState(documents, name, 'draining'), false)
      assert.equal(await removeMember(documents, name), false)
    }
    assert.deepEqual(Object.keys((await member.topology()).members), ['a'])
  })

  it('takes a node back that others had replaced', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    const member = await join('a', 0)
    assert.equal(await setMemberState(documents, 'a', 'away'), true)
    await until(async () => memberOf(await member.topology(), 'a')?.state === undefined)
  })

  it('takes in a node with the name of a property of all objects', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    const member = await join('constructor', 0)
    assert.equal(memberOf(await member.topology(), 'constructor')?.address, 'constructor')
    assert.equal(await setMemberState(documents, 'constructor', 'draining'), true)
    assert.equal(memberOf(await member.topology(), 'constructor')?.state, 'draining')
  })
})

function cluster() {
  const documents = new SharedMemoryDocuments().connect()
  const joined: Membership[] = []
  return {
    documents,
    async join(node: string, position: number, replicas?: number): Promise<Membership> {
      const describe = (): Announcement => ({
        zone: '',
        address: node,
        version: '1',
        state: 'serving',
        isReady: true,
        serves: true,
        answers: true,
        position,
        generation: 0,
      })
      const options = { documents, node, describe, logger, replicas, announceMs: 5 }
      const membership = await Membership.join(options)
      joined.push(membership)
      return membership
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(joined.map((member) => member.close()))
    },
  }
}

describe('settings that decide about records', () => {
  const limits = (value: number): DecidingSettings => ({ MAX_IDEMPOTENCY_KEYS: { value } })
  const dimension = (value: number | null, isLogged = false): DecidingSettings => ({
    DIMENSION: { value, isLogged },
  })
  const faultOf = (own: DecidingSettings, other?: DecidingSettings) =>
    settingsFault('a', own, new Map([['b', other === undefined ? {} : { settings: other }]]))

  it('must be the same on all nodes', () => {
    assert.equal(faultOf(limits(5), limits(5)), undefined)
    assert.equal(
      faultOf(limits(5), limits(6)),
      'MAX_IDEMPOTENCY_KEYS is 5 on node a and 6 on node b: nodes with different values would store different points',
    )
    const all = new Map([
      ['a', { settings: limits(6) }],
      ['b', { settings: limits(5) }],
      ['c', { settings: limits(7) }],
    ])
    assert.match(settingsFault('a', limits(5), all) ?? '', /and 7 on node c/)
  })

  it('are not compared with those that a node of another version does not announce', () => {
    assert.equal(faultOf(limits(5)), undefined)
    assert.equal(faultOf(limits(5), dimension(3)), undefined)
    assert.equal(faultOf(limits(5), { constructor: { value: 6 } }), undefined)
  })

  it('include the dimension, unless a node without one gets it from the log', () => {
    assert.match(
      faultOf(dimension(3), dimension(null)) ?? '',
      /DIMENSION is 3 on node a and not set on node b/,
    )
    assert.match(
      faultOf(dimension(null), dimension(3)) ?? '',
      /DIMENSION is not set on node a and 3 on node b/,
    )
    assert.equal(faultOf(dimension(3, true), dimension(null)), undefined)
    assert.equal(faultOf(dimension(null), dimension(3, true)), undefined)
    assert.match(faultOf(dimension(4), dimension(3, true)) ?? '', /4 on node a and 3 on node b/)
    assert.equal(faultOf(dimension(null), dimension(null)), undefined)
  })

  it('are those of the data directory, as far as it is open', () => {
    const storeOptions = { dataDir: '/data', logger, maxIdempotencyKeys: 7, maxIdempotencyBytes: 8 }
    const closed = decidingSettings({ opened: undefined, storeOptions })
    assert.deepEqual(closed, { MAX_IDEMPOTENCY_KEYS: { value: 7 }, MAX_IDEMPOTENCY_BYTES: { value: 8 } })
  })
})

describe('a node that starts', () => {
  const announcementOf = (value: number): Announcement => ({
    zone: 'z',
    address: 'x',
    version: '1.0.0',
    state: 'serving',
    isReady: false,
    position: 0,
    serves: false,
    answers: false,
    generation: 0,
    settings: { MAX_IDEMPOTENCY_KEYS: { value } },
  })
  const check = (shared: SharedMemoryDocuments, node: string, value: number, stop = new AbortController()) =>
    checkSettings({
      documents: shared.connect(),
      node,
      logger,
      signal: stop.signal,
      announcementMs: 200,
      describe: () => announcementOf(value),
    })

  it('is refused when its settings differ from those of a running node, and says how to change them', async () => {
    const shared = new SharedMemoryDocuments({ announcementMs: 1e9 })
    await shared.connect().announce('b', toJson(announcementOf(6)))
    await assert.rejects(
      check(shared, 'a', 5),
      /MAX_IDEMPOTENCY_KEYS is 5 on node a and 6 on node b: .*to change it, stop all nodes first$/,
    )
    await check(shared, 'a', 6)
  })

  it('waits until the announcement of a node that has stopped is gone', async () => {
    const shared = new SharedMemoryDocuments({ announcementMs: 200 })
    await shared.connect().announce('b', toJson(announcementOf(6)))
    await check(shared, 'a', 5)
  })

  it('announces itself first, so that of two nodes that start together one notices the difference', async () => {
    const shared = new SharedMemoryDocuments({ announcementMs: 1e9 })
    const outcomes = await Promise.allSettled([check(shared, 'a', 5), check(shared, 'b', 6)])
    assert.ok(outcomes.some(({ status }) => status === 'rejected'))
    const said = await shared.connect().announced()
    assert.deepEqual(
      [...said].map(([node, value]) => [node, fromJson<Announcement>(value).settings]),
      [
        ['a', announcementOf(5).settings],
        ['b', announcementOf(6).settings],
      ],
    )
  })

  it('stops waiting when it is stopped', async () => {
    const shared = new SharedMemoryDocuments({ announcementMs: 1e9 })
    await shared.connect().announce('b', toJson(announcementOf(6)))
    const stop = new AbortController()
    const waiting = check(shared, 'a', 5, stop)
    stop.abort()
    await waiting
  })
})
