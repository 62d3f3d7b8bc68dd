import assert from 'node:assert/strict'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { DatabaseError } from '../../src/base/errors.ts'
import { createLogger } from '../../src/base/log.ts'
import { UncertainAppend } from '../../src/cluster/log/commit-log.ts'
import { openNatsCluster } from '../../src/cluster/log/nats-cluster.ts'
import { logServerNotes } from '../../src/cluster/membership/cluster-view.ts'
import { makeCertificates } from '../support/certificates.ts'
import { openLog, take } from '../support/nats-log.ts'
import { NatsServers, natsMissing } from '../support/nats-servers.ts'
import { noSmallDisk } from '../support/small-disk.ts'
import { waitFor } from '../support/until.ts'

const skip = natsMissing()

describe('a log', { skip }, () => {
  it('is read completely although one of its servers has a flipped bit', async () => {
    await using servers = await NatsServers.start({ count: 3 })
    const texts = Array.from({ length: 40 }, (_, index) => `record number ${index + 1} of the log`)
    {
      await using node = await openLog(servers, 'rot')
      for (const text of texts) await node.log.append(Buffer.from(text), { id: text, partition: 0 })
      assert.deepEqual(await take(node.log, 1, texts.length), texts)
    }
    await Promise.all([0, 1, 2].map((index) => servers.kill(index, 'SIGTERM')))
    const stores = [0, 1, 2].map((index) => servers.storeOf(index))
    flipBit(stores, texts[19]!)
    await servers.startAll()
    // Each reader uses one server, so several readers reach the damaged one.
    for (let reader = 0; reader < 6; reader++) {
      const urls = [servers.urls[reader % 3]!]
      await using node = await openLog(servers, 'rot', { urls })
      assert.deepEqual(await take(node.log, 1, texts.length), texts)
    }
  })

  it('goes on while it is trimmed and its leader has a full disk, and names that server until it is restarted', async (test) => {
    await using servers = await NatsServers.start({ count: 3, volumeBytes: 24 * 1024 * 1024 })
    if (servers.volumes.length === 0) return test.skip(noSmallDisk)
    await using node = await openLog(servers, 'trimmed', { logBytesMax: 4 * 1024 * 1024 })
    const { log } = node
    const padding = 'x'.repeat(200_000)
    const acknowledged = new Map<string, number>()
    const append = async (id: string): Promise<boolean> => {
      // With the same id, as nodes do: what may have been stored is stored once.
      const record = Buffer.from(`${id}:${padding}`)
      for (;;) {
        try {
          acknowledged.set(id, await log.append(record, { id, partition: 0 }))
          return true
        } catch (error) {
          if (error instanceof UncertainAppend) continue
          if (error instanceof DatabaseError && error.reason === 'disk_full') return false
          if (!(error instanceof DatabaseError && error.reason === 'not_ready')) throw error
        }
      }
    }
    for (let round = 0; round < 40; round += 1) await append(`before ${round}`)
    assert.ok((await log.bounds()).first > 1, 'the log discards its oldest records')
    const leader = (await waitFor(async () => await servers.leaderOf('VDB-trimmed')))!
    servers.volumes[leader]!.fill()
    const named = await waitFor(async () => {
      await append(`during ${acknowledged.size}`)
      const notes = logServerNotes(await log.bounds())
      return notes.length > 0 ? notes : undefined
    })
    assert.match(named.join(), new RegExp(`^log server n${leader} .*restart`))
    // Long enough to discard everything from before.
    for (let round = 0; round < 40; round += 1) assert.ok(await append(`after ${round}`), 'writes go on')
    servers.volumes[leader]!.empty()
    await servers.kill(leader)
    await servers.startOne(leader)
    await waitFor(async () => {
      const isWhole = (await servers.isCurrent(leader)) && logServerNotes(await log.bounds()).length === 0
      return isWhole || undefined
    })
    assert.ok(await append('at last'))
    const positions = [...acknowledged.values()]
    assert.equal(new Set(positions).size, positions.length)
    const { first, last } = await log.bounds()
    assert.ok(positions.every((position) => position <= last))
    const stored = await take(log, first, last - first + 1)
    const kept = [...acknowledged].filter(([, position]) => position >= first)
    assert.ok(kept.length > 0, 'what was acknowledged last is in the log')
    for (const [id, position] of kept) {
      // Not `assert.equal`, which would print the records.
      assert.ok(stored[position - first] === `${id}:${padding}`, `${id} is at position ${position}`)
    }
  })

  it('is readable only for nodes with the certificate', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-certificates-'))
    try {
      const { caFile, certFile, keyFile } = makeCertificates(directory)
      const files = `cert_file: "${certFile}", key_file: "${keyFile}", ca_file: "${caFile}"`
      await using servers = await NatsServers.start({ count: 1, extra: `tls { ${files}, verify: true }` })
      const urls = servers.urls.map((url) => url.replace('nats://', 'tls://'))
      await using node = await openLog(servers, 'tls', { urls, caFile, certFile, keyFile })
      assert.equal(await node.log.append(Buffer.from('1'), { id: '1', partition: 0 }), 1)
      await assert.rejects(openLog(servers, 'tls', { urls, caFile, giveUpMs: 3_000 }))
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  it('stops connecting when the wait is aborted, however many servers refuse the node', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-certificates-'))
    try {
      const { caFile, certFile, keyFile } = makeCertificates(directory)
      const files = `cert_file: "${certFile}", key_file: "${keyFile}", ca_file: "${caFile}"`
      await using servers = await NatsServers.start({ count: 3, extra: `tls { ${files}, verify: true }` })
      const urls = servers.urls.map((url) => url.replace('nats://', 'tls://'))
      const stop = new AbortController()
      const options = { urls, cluster: 'tls', name: 'test', logBytesMax: 1 << 20, caFile }
      const opening = openNatsCluster(options, createLogger({ level: 'silent', pretty: false }), stop.signal)
      let hasEnded = false
      const ended = assert.rejects(opening, { reason: 'shutting_down' }).finally(() => {
        hasEnded = true
      })
      // Abort in the middle of the attempts, each of which a server refuses.
      await waitFor(async () => (/TLS handshake error/.test(servers.logOf(1)) ? true : undefined))
      stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
      // Turns, not a time: a busy machine takes longer for each. Waiting for the attempt would take a million.
      for (let turn = 0; turn < 10_000 && !hasEnded; turn += 1) await new Promise(setImmediate)
      assert.ok(hasEnded, 'it ends without waiting for the attempt')
      await ended
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})

/** Flips a bit of a text in one of the stores: a server that was behind may not have the text. */
function flipBit(stores: readonly string[], text: string): void {
  const blocks = stores.flatMap((store) =>
    globSync('jetstream/$G/streams/VDB-rot/msgs/*.blk', { cwd: store }).map((file) => join(store, file)),
  )
  const block = blocks.find((file) => readFileSync(file).includes(text))
  assert.ok(block !== undefined, 'the record is in no block')
  const bytes = readFileSync(block)
  bytes[bytes.indexOf(text) + 3]! ^= 4
  writeFileSync(block, bytes)
}
