import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryDocuments } from '../../../test/support/memory-log.ts'
import { createLogger } from '../../base/log.ts'
import { partitionCount } from '../../base/partitions.ts'
import {
  announce,
  enter,
  removeMember,
  requestMemberState,
  setMemberState,
  shareOf,
  whenAway,
  withRefetched,
} from './ownership.ts'
import { announcedIn, changeTopology, type MemberState, memberOf, readTopology } from './topology.ts'

describe('membership', () => {
  it('enters all nodes that start at the same time, and returns what they announce', async () => {
    const nodes = cluster()
    const { join, topology, announced } = nodes
    await Promise.all(['a', 'b', 'c'].map((node, index) => join(node, index)))
    const { members: found, generation } = await topology()
    assert.deepEqual(Object.keys(found).sort(), ['a', 'b', 'c'])
    assert.equal(generation, 3)
    assert.equal((await announced()).size, 3)
    assert.equal((await announced()).get('c')?.position, 2)
  })

  it('warns a node whose number of replicas is not that of the first', async () => {
    const nodes = cluster()
    const { join, warnings } = nodes
    await join('a', 0, 2)
    assert.deepEqual(warnings, [])
    await join('b', 0, 1)
    assert.match(String(warnings), /CLUSTER_REPLICAS is 1, and each point is on 2 nodes/)
  })

  it('removes a member that is away, once', async () => {
    const nodes = cluster()
    const { join, documents } = nodes
    await join('a', 0)
    await join('away', 0)
    assert.equal(await removeMember(documents, 'nobody'), false)
    const removed = await Promise.all(['away', 'away'].map((node) => removeMember(documents, node)))
    assert.deepEqual(removed.toSorted(), [false, true], 'of two removals at once, one finds the member')
  })

  it('knows no member that has never joined, whatever its name', async () => {
    const nodes = cluster()
    const { join, documents, topology } = nodes
    await join('a', 0)
    for (const name of ['constructor', '__proto__', 'b']) {
      assert.equal(await setMemberState(documents, name, () => 'draining'), false)
      assert.equal(await removeMember(documents, name), false)
    }
    assert.deepEqual(Object.keys((await topology()).members), ['a'])
  })

  it('does not forget what an operator asked of a member before', async () => {
    const nodes = cluster()
    const { join, documents, topology } = nodes
    await join('a', 0)
    const ask = (state: 'draining' | 'refetching'): Promise<boolean> =>
      requestMemberState(documents, 'a', state)
    const stateOf = async (): Promise<MemberState | undefined> => memberOf(await topology(), 'a')?.state
    const refused = { reason: 'precondition_failed' } as const
    assert.equal(await requestMemberState(documents, 'b', 'refetching'), false)
    assert.ok(await ask('draining'))
    await assert.rejects(ask('refetching'), { ...refused, message: /^node a is draining: undrain it first$/ })
    assert.ok(await ask('draining'))
    assert.equal(await stateOf(), 'draining')
    await setMemberState(documents, 'a', () => undefined)
    assert.ok(await ask('refetching'))
    await assert.rejects(ask('draining'), { ...refused, message: /^node a is refetching: try again when/ })
    assert.ok(await ask('refetching'))
    assert.equal(await stateOf(), 'refetching')
    await setMemberState(documents, 'a', () => 'away')
    assert.ok(await ask('draining'))
    assert.equal(await stateOf(), 'draining')
    await setMemberState(documents, 'a', () => 'away')
    assert.ok(await ask('refetching'))
    assert.equal(await stateOf(), 'awayRefetching')
    assert.ok(await ask('refetching'))
    await assert.rejects(ask('draining'), { ...refused, message: /^node a is refetching: try again when/ })
  })

  it('takes a node back that others had replaced', async () => {
    const nodes = cluster()
    const { join, say, documents, topology } = nodes
    await join('a', 0)
    assert.equal(await setMemberState(documents, 'a', whenAway), true)
    assert.equal(memberOf(await topology(), 'a')?.state, 'away')
    await say('a', 0)
    assert.equal(memberOf(await topology(), 'a')?.state, undefined)
  })

  it('lets a node that others had replaced refetch its data as an operator asked before', async () => {
    const nodes = cluster()
    const { join, say, documents, topology } = nodes
    await join('a', 0)
    await join('b', 0)
    const stateOf = async (): Promise<MemberState | undefined> => memberOf(await topology(), 'a')?.state
    await requestMemberState(documents, 'a', 'refetching')
    await say('a', 0)
    assert.equal(shareOf((await topology()).ownership, 'a').wanted, partitionCount)
    await setMemberState(documents, 'a', whenAway)
    assert.equal(shareOf((await topology()).ownership, 'a').wanted, 0, 'others copy its partitions')
    await say('a', 0)
    assert.equal(await stateOf(), 'refetching')
    await changeTopology(documents, (each) => withRefetched(each, 'a'))
    assert.equal(await stateOf(), undefined)
    assert.equal(shareOf((await topology()).ownership, 'a').wanted, partitionCount)
  })

  it('takes in a node with the name of a property of all objects', async () => {
    const nodes = cluster()
    const { join, documents, topology } = nodes
    await join('constructor', 0)
    assert.equal(memberOf(await topology(), 'constructor')?.address, 'constructor')
    assert.equal(await setMemberState(documents, 'constructor', () => 'draining'), true)
    assert.equal(memberOf(await topology(), 'constructor')?.state, 'draining')
  })
})

function cluster() {
  const documents = new SharedMemoryDocuments().connect()
  const warnings: string[] = []
  const logger = Object.assign(createLogger({ level: 'silent', pretty: false }), {
    warn: (warning: string) => warnings.push(warning),
  })
  const say = async (node: string, position: number): Promise<void> => {
    const is = { state: 'serving', isReady: true, answers: true, generation: 0 } as const
    await announce(documents, node, { zone: '', address: node, version: '1', ...is, position })
  }
  return {
    documents,
    warnings,
    topology: async () => (await readTopology(documents)).topology,
    announced: async () => await announcedIn(documents),
    say,
    async join(node: string, position: number, replicas?: number): Promise<void> {
      const entry = { node, member: { zone: '', address: node }, replicas, dimension: null, mayFound: true }
      await enter(documents, entry, logger)
      await say(node, position)
    },
  }
}
