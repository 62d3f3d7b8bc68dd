import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { until } from '../../test/support/until.ts'
import { createLogger } from '../base/log.ts'
import { removeMember } from './members.ts'
import { type Announcement, Membership } from './membership.ts'
import { SharedMemoryDocuments } from './memory-documents.ts'
import { SharedMemoryLog } from './memory-log.ts'
import { recordsMax } from './recent-changes.ts'
import { chunkSpanMax } from './record-frame.ts'

const logger = createLogger({ level: 'silent', pretty: false })

describe('membership', () => {
  it('enters all nodes that start at the same time, and returns what they announce', async () => {
    const { join, close } = cluster()
    const members = await Promise.all(['a', 'b', 'c'].map((node, index) => join(node, index)))
    const { members: found, generation } = await members[0]!.topology()
    assert.deepEqual(Object.keys(found).sort(), ['a', 'b', 'c'])
    assert.equal(generation, 3)
    await until(async () => (await members[1]!.announced()).size === 3)
    assert.equal((await members[1]!.announced()).get('c')?.position, 2)
    await close()
  })

  it('trims what all members have on disk, and waits for members that are away', async () => {
    const { join, close, log, documents } = cluster()
    const last = 3 * chunkSpanMax
    for (let id = 0; id < last; id++) await log.append(Buffer.of(0), { id: `${id}`, partition: 0 })
    const away = await join('away', 100)
    await away.close()
    const member = await join('a', last)
    // By now it could have trimmed, but the member that is away still needs all records.
    await until(async () => (await member.announced()).has('a'))
    assert.equal((await log.bounds()).first, 1)
    assert.equal(await removeMember(documents, 'nobody'), false)
    assert.equal(await removeMember(documents, 'away'), true)
    await until(async () => (await log.bounds()).first > 1)
    assert.equal((await log.bounds()).first, last - recordsMax - chunkSpanMax)
    await close()
  })

  it('refuses a node without a link if the cluster would have more nodes than replicas', async () => {
    const { join, close, documents } = cluster()
    await join('a', 0, 2)
    await join('b', 0, 2)
    await assert.rejects(join('c', 0, 2), /CLUSTER_REPLICAS is 2, and the cluster would have 3 nodes/)
    const again = await join('a', 0, 2)
    assert.deepEqual(Object.keys((await again.topology()).members), ['a', 'b'])
    await removeMember(documents, 'b')
    await join('c', 0, 2)
    await close()
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
        ...{ zone: '', address: node, version: '1', isReady: true },
        ...{ position: floor, floor },
      })
      const options = { log, documents, node, describe, logger, replicas, announceMs: 5, trimMs: 5 }
      const membership = await Membership.join(options)
      joined.push(membership)
      return membership
    },
    close: async () => {
      await Promise.all(joined.map((member) => member.close()))
    },
  }
}
