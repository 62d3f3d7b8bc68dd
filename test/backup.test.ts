import assert from 'node:assert/strict'
import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { timeOf } from '../src/cli/arguments.ts'
import { DirectoryObjects } from '../src/cli/object-stores.ts'
import { createHttpClient, type VectorClient } from '../src/client/index.ts'
import { readConfig } from '../src/config.ts'
import { Backups, snapshotOfData } from '../src/service/stored-data.ts'
import { BackupCampaign } from './support/backup-campaign.ts'
import { assertEnded, Command, run, temporaryDirectory } from './support/process.ts'
import { fixedSeeds, seededRandom } from './support/random.ts'
import { startTestService } from './support/service.ts'
import { pieces, readSnapshot } from './support/snapshots.ts'

describe('a backup', () => {
  it('has all collections and aliases, of a running and of a stopped service', async () => {
    await using directory = await temporaryDirectory()
    const path = (name: string): string => join(directory.path, name)
    const contentsOf = async (baseUrl: string): Promise<unknown> => {
      const client = createHttpClient({ baseUrl })
      const points = ['default', 'docs', 'empty'].map((name) => pointsOf(client, name))
      return { infos: await client.collections.list(), points: await Promise.all(points) }
    }
    let expected: unknown
    {
      await using service = await startTestService({ DATA_DIR: path('data') })
      const client = createHttpClient({ baseUrl: service.httpUrl })
      await client.collections.put('docs', { dimension: 3, hnsw: { m: 8 }, quotas: { points: 1000 } })
      await client.collections.put('default', { quotas: { searchesInFlight: 100 } })
      await client.collections.put('empty', {})
      await client.collections.setAliases({ set: { papers: 'docs', today: 'default' }, remove: undefined })
      const points = Array.from({ length: 40 }, (_, index) => pointOf([index, 1, -0], `"${index}"`))
      await client.collection('docs').insertBatch(points)
      for (const command of [
        ['snapshot', 'create', directory.path],
        ['export', path('points.jsonl')],
      ]) {
        const refused = await run([...command, '--http', service.httpUrl])
        const said =
          /only the collection default, with 0 points, and collection docs has 40: `vicinal backup`/
        assertEnded(refused, 2, said)
        // A collection that the caller names is what the caller wants.
        const named = await run([...command, '--http', service.httpUrl, '--collection', 'default'])
        assert.deepEqual([named.code, named.stderr], [0, ''])
      }
      await client.insert(pointOf([1, 2], 'main'))
      const warned = await run(['snapshot', 'create', path('main.snapshot'), '--http', service.httpUrl])
      assertEnded(warned, 0, /WARNING: this is only the collection default, with 1 points, and .*docs has 40/)
      const made = await run(['backup', path('running'), '--http', service.httpUrl])
      assertEnded(made, 0, /^docs: 40 points, \d+ bytes$/m)
      assert.match(made.stdout, /^\S+Z: 3 collections and 2 aliases, 41 points, \d+ bytes of all points$/m)
      expected = await contentsOf(service.httpUrl)
      const again = await run(['backup', path('running'), '--http', service.httpUrl])
      // Of a later moment: so the time in between can be restored.
      assert.match(again.stdout, /41 points, 0 bytes of changes$/m)
      assert.equal(readdirSync(path('running/backups')).length, 2)
    }
    // The same moment, from the stopped service.
    const old = await run(['backup', path('running'), '--data-dir', path('data')])
    assert.match(old.stdout, /41 points, 0 bytes of changes$/m)
    assertEnded(await run(['backup', path('stopped'), '--data-dir', path('data')]), 0, /^docs: 40 points/m)
    for (const name of ['running', 'stopped']) {
      assertEnded(await run(['backup', 'verify', path(name), '--scratch', directory.path]), 0)
      const dataDir = path(`restored-${name}`)
      assertEnded(await run(['restore', path(name), '--data-dir', dataDir]), 0)
      await using service = await startTestService({ DATA_DIR: dataDir })
      assert.deepEqual(await contentsOf(service.httpUrl), expected, name)
      // A restore begins another history: the next backup has all points.
      const next = await run(['backup', path(name), '--http', service.httpUrl])
      assert.match(next.stdout, /bytes of all points$/m)
    }
    assert.deepEqual(
      readdirSync(directory.path).filter((name) => name.includes('verify')),
      [],
    )
  })

  it('is refused where there is nothing to copy, or nowhere to put it', async () => {
    await using directory = await temporaryDirectory()
    const path = (name: string): string => join(directory.path, name)
    assertEnded(await run(['backup', path('never'), '--data-dir', path('none')]), 1, /nothing is stored in /)
    assert.equal(existsSync(path('never')), false)
    assertEnded(await run(['restore', path('never'), '--data-dir', path('none')]), 1, /never has no backup/)
    assertEnded(await run(['backup', 'list', path('never')]), 1, /never has no backup/)
    assertEnded(await run(['backup', 'gs://bucket']), 2, /neither a directory nor like s3:\/\/bucket\/prefix/)
    assertEnded(
      await run(['backup', 's3://bucket/a b']),
      2,
      /s3:\/\/bucket\/a b is not like s3:\/\/bucket\/prefix/,
    )
    assertEnded(await run(['backup', 's3://bucket']), 2, /AWS_ACCESS_KEY_ID is not set/)
    assertEnded(await run(['backup', path('never'), '--keep', '3x']), 2, /not a number like 14, or an age/)
    for (const time of ['yesterday', '2026-02-30T00:00:00Z']) {
      const at = ['restore', path('never'), '--data-dir', path('none'), '--at', time]
      assertEnded(await run(at), 2, /not a time like/)
    }
    assert.equal(timeOf('2026-11-27T03:15:00.123456789Z'), Date.parse('2026-11-27T03:15:00.123Z'))
    await using service = await startTestService()
    await createHttpClient({ baseUrl: service.httpUrl }).insert(pointOf([1], 'x'))
    const deep = await run(['backup', path('a/b'), '--http', service.httpUrl])
    assertEnded(deep, 1, /no directory .*: create it, or name another/)
    for (const since of ['1', `${'x'.repeat(36)}-1`, '']) {
      const answer = await fetch(`${service.httpUrl}/snapshots?since=${since}`, { method: 'POST' })
      assert.equal(answer.status, 400)
      assert.match(await answer.text(), /^since is ".*", not <database id>-<sequence> of an earlier snapshot/)
      const changes = await fetch(`${service.httpUrl}/changes?stored=${since}`, { method: 'POST' })
      assert.equal(changes.status, 400)
      assert.match(await changes.text(), /^stored is ".*", not <journal id>-<byte> of earlier changes/)
    }
  })

  it('of changes has only these, and is refused as a snapshot of all points', async () => {
    await using directory = await temporaryDirectory()
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const ids = await client.insertBatch(Array.from({ length: 500 }, (_, at) => pointOf([at], `point ${at}`)))
    const take = async (since?: string): Promise<{ readonly moment: string; readonly bytes: Buffer }> => {
      const query = since === undefined ? '' : `?since=${since}`
      const answer = await fetch(`${service.httpUrl}/snapshots${query}`, { method: 'POST' })
      const { headers } = answer
      const moment = `${headers.get('vicinal-database-id')}-${headers.get('vicinal-sequence')}`
      return { moment, bytes: Buffer.from(await answer.arrayBuffer()) }
    }
    const first = await take()
    await client.delete(ids[3]!)
    await client.patch(ids[4]!, { set: { a: 1 } })
    await client.patch(ids[5]!, { vector: [0.5] })
    const added = await client.insert(pointOf([9], 'new'))
    const more = await take(first.moment)
    const { header, points } = await readSnapshot(pieces(more.bytes))
    assert.deepEqual(new Set(points.keys()), new Set([ids[4]!, ids[5]!, added]))
    assert.equal(header.changes?.orders.length, 500)
    assert.ok(more.bytes.length < 1000, `${more.bytes.length} bytes`)
    // All points, where the moment is a later one or of another history.
    const [id, sequence] = [more.moment.slice(0, 36), Number(more.moment.slice(37))]
    for (const since of [`${id}-${sequence + 1}`, `${'0'.repeat(8)}${id.slice(8)}-1`]) {
      const whole = await readSnapshot(pieces((await take(since)).bytes))
      assert.deepEqual([whole.header.changes, whole.points.size], [undefined, 500])
    }
    const file = join(directory.path, 'changes.snapshot')
    for (let at = 0; at < more.bytes.length; at += 1) {
      const damaged = Buffer.from(more.bytes)
      damaged[at]! ^= 0x41
      await assert.rejects(readSnapshot(pieces(damaged)), /^DatabaseError: the snapshot cannot be used/)
    }
    writeFileSync(file, more.bytes)
    assert.match(
      (await run(['snapshot', 'verify', file])).stdout,
      /^3 points of 1 dimensions changed after 500/,
    )
    const refused = await run(['snapshot', 'restore', file, '--data-dir', join(directory.path, 'data')])
    assertEnded(refused, 1, /has only the changes after sequence number 500, not all points/)
  })
})

describe('backups in a directory', () => {
  it('restore every moment of a random history, also with kills, damage and two at once', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    for (const seed of fixedSeeds(1, 1)) {
      rmSync(place, { recursive: true, force: true })
      await using campaign = await BackupCampaign.start(seed, place)
      for (let round = 0; round < 6; round += 1) {
        await campaign.change()
        if (round % 4 === 1) await campaign.killBackup()
        if (round % 4 === 2) await campaign.backUpTwice()
        else await campaign.backUp()
      }
      await campaign.restoreSome(join(directory.path, `${seed}`), 3)
      // The killed backup may have been complete, and the last one without changes.
      await campaign.change()
      await campaign.backUp()
      await campaign.assertDamageIsFound()
    }
  })

  it('are consistent while points change', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const seed = 5
    const random = seededRandom(seed)
    let isEnding = false
    const ids = [
      ...(await client.insertBatch(Array.from({ length: 300 }, (_, at) => pointOf([at, 1], `${at}`)))),
    ]
    const writing = (async () => {
      for (let at = 0; !isEnding; at += 1) {
        const batch = Array.from({ length: 5 }, (_, more) => pointOf([at, more], `${at} ${more}`))
        ids.push(...(await client.insertBatch(batch)))
        for (let deletions = 0; deletions < 4; deletions += 1) {
          await client.delete(ids.splice(Math.floor(random() * ids.length), 1)[0]!)
        }
        await client.patch(ids[Math.floor(random() * ids.length)]!, { vector: [at, 0.5] })
        await client.patch(ids[Math.floor(random() * ids.length)]!, { set: { at } })
      }
    })()
    for (let count = 0; count < 8; count += 1) {
      assertEnded(await run(['backup', place, '--http', service.httpUrl]), 0, /^default: \d+ points/)
    }
    isEnding = true
    await writing
    const verified = await run(['backup', 'verify', place])
    assertEnded(verified, 0)
    assert.match(verified.stdout, /bytes of changes: restored, and every value is the same$/m)
  })

  it('follow the service until the command is stopped', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    await client.insert(pointOf([1], 'first'))
    const command = new Command(['backup', place, '--http', service.httpUrl, '--follow', '1'])
    await command.says(/1 points, \d+ bytes of all points/)
    await client.insert(pointOf([2], 'second'))
    await command.says(/2 points, \d+ bytes of changes/)
    command.kill('SIGTERM')
    assert.equal((await command.ended).code, 0)
    assert.equal((await readRestored(place, join(directory.path, 'data'))).size, 2)
  })

  it('keep what the newest ones need, and remove the rest a day after it was superseded', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const backUp = async (...more: string[]): Promise<void> => {
      await client.insert(pointOf([1], 'another'))
      assertEnded(await run(['backup', place, '--http', service.httpUrl, ...more]), 0, /^default/)
    }
    const store = new DirectoryObjects(place)
    const files = (): number =>
      ['backups', 'objects'].flatMap((name) => readdirSync(join(place, name))).length
    // Two with changes after each full one.
    for (let count = 0; count < 9; count += 1) await backUp(...(count % 3 === 0 ? ['--full'] : []))
    writeFileSync(join(place, 'objects/left'), 'by a killed backup')
    const now = Date.now()
    const day = 24 * 60 * 60 * 1000
    const prune = async (count: number, timeMs: number): Promise<number> =>
      await (await Backups.open(store)).prune((_, at) => at < count, timeMs)
    // Nothing is removed that a backup in progress could build on.
    assert.equal(await prune(1, now), 0)
    assert.equal(files(), 27)
    const age = (now - 2 * day) / 1000
    for (const name of readdirSync(join(place, 'objects'))) utimesSync(join(place, 'objects', name), age, age)
    // The fourth newest builds on the fifth and the sixth.
    assert.equal(await prune(4, now + 2 * day), 3)
    assert.equal(files(), 18)
    assert.equal(await prune(2, now + 2 * day), 3)
    assert.equal(await prune(2, now + 2 * day), 0)
    assert.equal(files(), 9)
    const listed = await run(['backup', 'list', place])
    assert.deepEqual(
      listed.stdout
        .trim()
        .split('\n')
        .map((line) => line.replace(/^.* aliases, |, \d+ bytes|, and every moment.*/g, '')),
      ['7 points of all points', '8 points of changes', '9 points of changes'],
    )
    assert.equal((await readRestored(place, join(directory.path, 'data'))).size, 9)
    const early = ['restore', place, '--data-dir', join(directory.path, 'x'), '--at', '2026-01-01T00:00:00Z']
    assertEnded(await run(early), 1, /the oldest backup in .* is of 20/)
  })

  it('begin again with all points when the changes have become more than these', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const kinds: string[] = []
    for (let count = 0; count < 8; count += 1) {
      await client.insert(pointOf([1], 'x'.repeat(2000)))
      const { stdout } = await run(['backup', place, '--http', service.httpUrl])
      kinds.push(/bytes of (all|changes)/.exec(stdout)![1]!)
    }
    assert.deepEqual(kinds, ['all', 'changes', 'all', 'changes', 'changes', 'changes', 'all', 'changes'])
  })
})

function pointOf(vector: readonly number[], content: string) {
  return { vector, payload: { contentType: 'Text' as const, content } }
}

async function pointsOf(client: VectorClient, collection: string): Promise<unknown[]> {
  const listed = []
  const include = { vector: true, payload: true, version: true }
  for await (const point of client.collection(collection).listAll({ include })) listed.push(point)
  return listed
}

/** Restores the newest backup, and reads its points. */
async function readRestored(place: string, dataDir: string): Promise<ReadonlyMap<string, unknown>> {
  assertEnded(await run(['restore', place, '--data-dir', dataDir]), 0)
  return (await readSnapshot(snapshotOfData(readConfig({}, { dataDir })))).points
}
