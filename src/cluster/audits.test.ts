import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryDocuments } from '../../test/support/memory-log.ts'
import { createLogger } from '../base/log.ts'
import { PartitionDigest } from '../storage/applied.ts'
import { Audits } from './audits.ts'
import type { SharedDocuments } from './log/commit-log.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const position = 7
const digest = new PartitionDigest().bytes

/** Documents that accept the same names as those of the log servers, and announce the nodes. */
async function documentsOf(nodes: readonly string[]): Promise<SharedDocuments> {
  const documents = new SharedMemoryDocuments({ announcementMs: 1e9 }).connect()
  for (const node of nodes) await documents.announce(node, new Uint8Array())
  const checked = (name: string): string => {
    const isKey = /^[-/=.\w]+$/.test(name) && name.split('.').every((part) => part !== '')
    if (!isKey) throw new Error(`invalid key: ${name}`)
    return name
  }
  return {
    ...documents,
    get: async (name) => await documents.get(checked(name)),
    put: async (name, ...rest) => await documents.put(checked(name), ...rest),
  }
}

function auditsOf(documents: SharedDocuments, node: string, waitMs: number): Audits {
  return new Audits({ documents, node, logger, waitMs, onMinority: (reason) => assert.fail(reason) })
}

describe('a comparison of replicas', () => {
  it('includes nodes of any name', async () => {
    const nodes = ['Zürich 1', 'rack:3', 'ends with a dot.', 'two..dots', '.', 'plain']
    const documents = await documentsOf(nodes)
    // None of them waits that long: the comparison ends when all have published their digests.
    const audits = nodes.map((node) => auditsOf(documents, node, 600_000))
    const comparisons = audits.map((each) => each.add('docs', position, digest))
    for (const [index, each] of comparisons.entries())
      assert.deepEqual(await each, { compared: nodes.length - 1, different: 0 }, nodes[index])
    for (const each of audits) await each.close()
  })

  it('uses the documents that earlier programs use, where these could', async () => {
    const documents = await documentsOf(['node-1.eu', 'B'])
    const finding = {
      node: 'B',
      collection: 'docs',
      position,
      digest: Buffer.from(digest).toString('base64'),
    }
    await documents.put('digest-B', Buffer.from(JSON.stringify([finding])), 0)
    const audits = auditsOf(documents, 'node-1.eu', 600_000)
    assert.deepEqual(await audits.add('docs', position, digest), { compared: 1, different: 0 })
    const written = await documents.get('digest-node-1.eu')
    assert.deepEqual(JSON.parse(Buffer.from(written!.value).toString()), [{ ...finding, node: 'node-1.eu' }])
    await audits.close()
  })

  it('leaves out a node whose digest cannot be read, and compares the others', async () => {
    const documents = await documentsOf(['a', 'b', 'broken', 'unreadable'])
    const finding = {
      node: 'b',
      collection: 'docs',
      position,
      digest: Buffer.from(digest).toString('base64'),
    }
    await documents.put('digest-b', Buffer.from(JSON.stringify([finding])), 0)
    await documents.put('digest-broken', Buffer.from('[{'), 0)
    const failing: SharedDocuments = {
      ...documents,
      get: async (name) => {
        if (name === 'digest-unreadable') throw new Error('no answer')
        return await documents.get(name)
      },
    }
    // That of b is there from the start, so it does not matter how short the wait for the others is.
    const audits = auditsOf(failing, 'a', 1)
    assert.deepEqual(await audits.add('docs', position, digest), { compared: 1, different: 0 })
    await audits.close()
  })
})
