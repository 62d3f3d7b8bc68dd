import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { temporaryDirectory } from '../../../test/support/process.ts'
import { createLogger } from '../../base/log.ts'
import type { Announcement } from '../membership/topology.ts'
import { fetchReplica } from './replica-fetch.ts'

const logger = createLogger({ level: 'silent', pretty: false })

describe('a node that copies another one', () => {
  it('asks none with a fault, whose data could be older than the log, and first the one that has applied most', async () => {
    await using directory = await temporaryDirectory()
    const stop = new AbortController()
    const asked: string[] = []
    const peers = {
      ask: assert.fail,
      stream(node: string): never {
        asked.push(node)
        if (asked.length === 4) stop.abort(new Error('enough'))
        throw new Error('no answer')
      },
    }
    const announced = new Map([
      ['self', said(9)],
      ['behind', said(6)],
      ['full', said(9, { hasFault: true })],
      ['drained', said(7, { state: 'draining', isReady: false })],
      ['without log', said(9, { lostLog: 'log' })],
      ['starting', said(9, { answers: false })],
    ])
    const data = { dataDir: directory.path, storeOptions: { dataDir: directory.path, logger } }
    const options = { node: 'self', logId: 'log', logger, peers, signal: stop.signal, retryMs: 1 }
    await assert.rejects(fetchReplica(data, { ...options, announced: async () => announced }), /enough/)
    assert.deepEqual(asked, ['drained', 'behind', 'drained', 'behind'])
  })
})

function said(position: number, changes: Partial<Announcement> = {}): Announcement {
  const is = { isReady: true, answers: true, generation: 1, position }
  return { zone: '', address: '', version: '1', state: 'serving', ...is, ...changes }
}
