import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryDocuments, SharedMemoryLog } from '../../test/support/memory-log.ts'
import { until } from '../../test/support/until.ts'
import { createLogger } from '../base/log.ts'
import { type Announcement, Membership } from './membership.ts'
import { removeMember, setMemberState } from './ownership.ts'
import { recordsMax } from './recent-changes.ts'
import { chunkSpanMax } from './records.ts'
import { memberOf } from './topology.ts'

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

  it('trims what all members have on disk, and waits for members that are away', async () => {
    await using nodes = cluster()
    const { join, log, documents } = nodes
    const last = 3 * chunkSpanMax
    for (let id = 0; id < last; id++) await log.append(Buffer.of(0), { id: `${id}`, partition: 0 })
    const away = await join('away', 100)
    await away.close()
    const member = await join('a', last)
    // By now it could have trimmed, but the member that is away still needs all records.
    await until(async () => (await member.announced()).has('a'))
    assert.equal((await log.bounds()).first, 1)
    assert.equal(await removeMember(documents, 'nobody'), false)
    const removed = await Promise.all(['away', 'away'].map((node) => removeMember(documents, node)))
    assert.deepEqual(removed.toSorted(), [false, true], 'of two removals at once, one finds the member')
    await until(async () => (await log.bounds()).first > 1)
    assert.equal((await log.bounds()).first, last - recordsMax - chunkSpanMax)
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

  it('takes in a node with the name of a property of all objects', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    const member = await join('constructor', 0)
    assert.equal(memberOf(await member.topology(), 'constructor')?.address, 'constructor')
    assert.equal(await setMemberState(documents, 'constructor', 'draining'), true)
    assert.equal(memberOf(await member.topology(), 'constructor')?.state, 'draining')
  })

  it('refuses a node if each has all points and there would be more nodes than its replicas', async () => {
    await using nodes = cluster()
    const { join, documents } = nodes
    await join('a', 0)
    await join('b', 0, 2)
    await assert.rejects(join('c', 0, 2), /CLUSTER_REPLICAS is 2, and the cluster would have 3 nodes/)
    const again = await join('a', 0, 2)
    assert.deepEqual(Object.keys((await again.topology()).members), ['a', 'b'])
    await removeMember(documents, 'b')
    await join('c', 0, 2)
  })
})

function cluster() {
  const [sharedLog, sharedDocuments] = [new SharedMemoryLog(), new SharedMemoryDocuments()]
  const [log, documents] = [sharedLog.connect(), sharedDocuments.connect()]
  const joined: Membership[] = []
  return {
    log,
    documents,
    async join(node: string, floor: number, replicas?: number): Promise<Membership> {
      const describe = (): Announcement => ({
        ...{ zone: '', address: node, version: '1', isReady: true, serves: true, answers: true },
        ...{ position: floor, floor, generation: 0 },
      })
      const options = { log, documents, node, describe, logger, replicas, announceMs: 5, trimMs: 5 }
      const membership = await Membership.join(options)
      joined.push(membership)
      return membership
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(joined.map((member) => member.close()))
    },
  }
}
