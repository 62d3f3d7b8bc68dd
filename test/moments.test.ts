import assert from 'node:assert/strict'
import {
  appendFileSync,
  cpSync,
  globSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger, type Logger } from '../src/base/log.ts'
import { createHttpClient } from '../src/client/index.ts'
import { readConfig } from '../src/config.ts'
import { recordsIn, snapshotOfData } from '../src/service/stored-data.ts'
import type { ChangeRecord } from '../src/storage/changes/change-format.ts'
import { openDataStore, type StoreOptions } from '../src/storage/data-store.ts'
import type { DataStore, JournalRange } from '../src/storage/store.ts'
import { openTables } from '../src/storage/tables.ts'
import { BackupCampaign } from './support/backup-campaign.ts'
import { assertEnded, run, temporaryDirectory } from './support/process.ts'
import { fixedSeeds } from './support/random.ts'
import { startServedBy } from './support/service.ts'
import { readSnapshot } from './support/snapshots.ts'
import { groupOf, insertion, insertionsOf } from './support/stored-points.ts'

describe('a moment between backups', () => {
  it('is restored after kills of the service in the middle of its writes', async () => {
    for (const seed of fixedSeeds(1)) {
      await using directory = await temporaryDirectory()
      const path = (name: string): string => join(directory.path, name)
      await using campaign = await BackupCampaign.startProcess(seed, path('backups'), path('data'))
      for (let round = 0; round < 3; round += 1) {
        await campaign.change()
        if (round % 2 === 1) await campaign.restart()
        await campaign.backUp()
      }
      await campaign.restoreSome(path('restored'), 5)
    }
  })

  it('is refused with those that are possible, and is the one before a mistake', async () => {
    await using directory = await temporaryDirectory()
    const path = (name: string): string => join(directory.path, name)
    // A thread of its own serves: the changes are sent through it.
    await using service = await startServedBy(1, { DATA_DIR: path('data') })
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const backUp = async (place: string): Promise<string> => {
      const ended = await run(['backup', path(place), '--http', service.httpUrl])
      assert.equal(ended.code, 0, ended.stderr)
      return ended.stderr
    }
    const restore = (place: string, timeMs: number): ReturnType<typeof run> => {
      rmSync(path('restored'), { recursive: true, force: true })
      const at = new Date(timeMs).toISOString()
      return run(['restore', path(place), '--data-dir', path('restored'), '--at', at])
    }
    const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'x' } } as const
    await client.insertBatch([point, point, point])
    await backUp('backups')
    await client.insert(point)
    const before = Date.now()
    await new Promise((resolve) => setTimeout(resolve, 5))
    await client.deleteMatching({ filter: {}, everything: true })
    assertEnded(
      await restore('backups', before),
      1,
      /every moment up to \S+Z can be restored: for a later one/,
    )
    assert.doesNotMatch(await backUp('backups'), /WARNING/)
    const restored = await restore('backups', before)
    assertEnded(restored, 0)
    assert.equal(await pointsIn(path('restored')), 4)
    assert.match(restored.stdout, /and the changes up to \S+Z: restored to /)
    assert.match((await run(['backup', 'list', path('backups')])).stdout, /, and every moment since \S+Z$/m)
    assertEnded(await run(['backup', 'verify', path('backups'), '--scratch', directory.path]), 0)

    // Another place takes the changes, so that they are missing here.
    await client.insert(point)
    await backUp('others')
    const between = Date.now()
    await client.insert(point)
    await backUp('others')
    assert.match(await backUp('backups'), /not all changes since the last backup were kept/)
    assertEnded(await restore('backups', between), 1, /up to \S+Z can be restored, and from \S+Z on/)
    assertEnded(await restore('others', between), 0)
    assert.equal(await pointsIn(path('restored')), 1)

    // Nothing has changed since: a backup makes also the moments after the last change possible.
    const quiet = Date.now()
    await new Promise((resolve) => setTimeout(resolve, 5))
    assertEnded(await restore('others', quiet), 1, /for a later one, make a backup first/)
    await backUp('others')
    assertEnded(await restore('others', quiet), 0)
    assert.equal(await pointsIn(path('restored')), 2)
  })
})

describe('backups with changes', () => {
  it('do not join the changes of a directory that was put back with those before', async () => {
    for (const isAhead of [true, false]) {
      await using directory = await temporaryDirectory()
      const path = (name: string): string => join(directory.path, name)
      const backUp = async (): Promise<string> => {
        const ended = await run(['backup', path('backups'), '--data-dir', path('data'), '--full'])
        assertEnded(ended, 0, /^default: /)
        return ended.stderr
      }
      await withData(path('data'), async () => {})
      assert.doesNotMatch(await backUp(), /WARNING/)
      cpSync(path('data'), path('copy'), { recursive: true })
      await withData(path('data'), async (data) => await data.main.commit(groupOf([insertion(0, 1)])))
      assert.doesNotMatch(await backUp(), /WARNING/)
      rmSync(path('data'), { recursive: true })
      renameSync(path('copy'), path('data'))
      if (!isAhead) {
        // As many bytes as before.
        await withData(path('data'), async (data) => await data.main.commit(groupOf([insertion(0, 1)])))
      }
      assert.match(await backUp(), /not all changes since the last backup were kept/)
      const { stdout } = await run(['backup', 'list', path('backups')])
      assert.equal(stdout.match(/every moment since/g)?.length, 1, stdout)
      assertEnded(await run(['backup', 'verify', path('backups'), '--scratch', directory.path]), 0)
    }
  })

  it('can be verified after a setting has fixed the dimension of no points', async () => {
    await using directory = await temporaryDirectory()
    const path = (name: string): string => join(directory.path, name)
    const backUp = ['backup', path('backups'), '--data-dir', path('data')]
    await withData(path('data'), async () => {})
    assertEnded(await run(backUp), 0, /^default: /)
    await withData(path('data'), async () => {}, { dimension: 3 })
    assertEnded(await run(backUp), 0, /^default: /)
    assert.match((await run(['backup', 'list', path('backups')])).stdout, /every moment since/)
    assertEnded(await run(['backup', 'verify', path('backups'), '--scratch', directory.path]), 0)
  })

  it('fail when the changes cannot be had now, and say when a moment is another one', async () => {
    await using directory = await temporaryDirectory()
    const place = join(directory.path, 'backups')
    await using service = await startServedBy(1, {})
    let status: number | undefined = 503
    const proxy = createServer(async ({ url, method, headers }, response) => {
      if (url?.startsWith('/changes') && status !== undefined) {
        response.writeHead(status).end()
        return
      }
      const { host: _, connection: __, ...others } = headers
      const init = { method: method!, headers: others as Record<string, string> }
      const answer = await fetch(service.httpUrl + url, init)
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    try {
      const { port } = proxy.address() as AddressInfo
      const backUp = async (): ReturnType<typeof run> =>
        await run(['backup', place, '--http', `http://127.0.0.1:${port}`])
      const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'x' } } as const
      const client = createHttpClient({ baseUrl: service.httpUrl })
      assertEnded(await backUp(), 1, /answered 503/)
      status = undefined
      assertEnded(await backUp(), 0, /^default: /)
      await client.insert(point)
      // As a program that keeps none.
      status = 404
      assertEnded(await backUp(), 0, /^default: /)
      const at = ['--at', new Date().toISOString()]
      const restore = ['restore', place, '--data-dir', join(directory.path, 'restored')]
      assertEnded(await run([...restore, ...at]), 0, /WARNING: no changes were kept: this is the moment/)
      // The next one continues the newest one that has changes.
      status = undefined
      await client.insert(point)
      const next = await backUp()
      assertEnded(next, 0, /^default: /)
      assert.doesNotMatch(next.stderr, /WARNING/)
      const { stdout } = await run(['backup', 'list', place])
      assert.match(stdout, /, and every moment since \S+Z$/m)
    } finally {
      proxy.closeAllConnections()
      proxy.close()
    }
  })
})

describe('the journal of changes', () => {
  it('has exactly what was committed, also after a crash on either side of the commit', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    let begin!: JournalRange
    await withData(dataDir, async (data) => {
      begin = await data.changes({})
      await data.main.commit(groupOf([insertion(0, 1)]))
      await data.create({ name: 'docs' })
    })
    // What a crash before the end of a transaction leaves.
    const file = join(dataDir, 'changes', readdirSync(join(dataDir, 'changes'))[0]!)
    appendFileSync(file, 'not committed')
    await withData(dataDir, async (data) => {
      await data.main.commit(groupOf([insertion(1, 2)]))
      const { records } = await changesOf(data, begin)
      assert.deepEqual(
        records.map(({ kind }) => kind),
        ['place', 'points', 'created', 'points'],
      )
      assert.deepEqual(sequencesOf(records), [
        [0, 1],
        [1, 2],
      ])
    })
    // A file that is cut off has lost changes: they are no longer kept.
    const last = readdirSync(join(dataDir, 'changes')).sort().at(-1)!
    truncateSync(join(dataDir, 'changes', last), 10)
    const reasons: string[] = []
    await withData(
      dataDir,
      async (data) => {
        await data.main.commit(groupOf([insertion(2, 3)]))
        const { range, records } = await changesOf(data, begin)
        assert.notEqual(range.id, begin.id)
        assert.deepEqual(sequencesOf(records), [])
      },
      { logger: loggerTo(reasons) },
    )
    assert.match(reasons.join(), /\.changes is cut off/)
  })

  it('ends when nobody stores it, and writes go on', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const reasons: string[] = []
    await withData(
      dataDir,
      async (data) => {
        const begin = await data.changes({})
        for (let at = 1; at <= 20; at += 1) await data.main.commit(groupOf([insertion(at - 1, at)]))
        assert.match(reasons.join(), /no backup has taken them: they are too many/)
        assert.equal(data.keepsChanges, false)
        assert.deepEqual(readdirSync(dataDir).includes('changes'), false)
        assert.equal(data.main.sequence, 20)
        const again = await data.changes({ since: { id: begin.id, at: begin.to } })
        assert.notEqual(again.id, begin.id)
        await data.main.commit(groupOf([insertion(20, 21)]))
        assert.deepEqual(sequencesOf((await changesOf(data, again)).records), [[20, 21]])
      },
      { maxChangesBytes: 1000, logger: loggerTo(reasons) },
    )
  })

  it('has times that never go back, also where the clock does', async () => {
    await using directory = await temporaryDirectory()
    const clock = 'data:text/javascript,let now = 2e12; Date.now = () => (now -= 1000)'
    const options = { writerExecArgv: ['--import', clock] }
    await withData(
      join(directory.path, 'data'),
      async (data) => {
        const begin = await data.changes({})
        assert.ok(begin.timeMs > 1.9e12, 'the clock of the test is in use')
        for (let at = 1; at <= 3; at += 1) await data.main.commit(groupOf([insertion(at - 1, at)]))
        const { range, records } = await changesOf(data, begin)
        await data.main.commit(groupOf([insertion(3, 4)]))
        const { records: later } = await changesOf(data, range)
        const times = [...records, ...later].flatMap((each) => (each.kind === 'points' ? [each.timeMs] : []))
        assert.deepEqual(times, times.toSorted())
        // A backup has a time of its own, which parts the changes before from those after it.
        assert.ok(begin.timeMs < times[0]! && times[2]! <= range.timeMs && range.timeMs < times[3]!)
      },
      options,
    )
  })

  it('ends when the data are repaired', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    let begin!: JournalRange
    await withData(dataDir, async (data) => {
      begin = await data.changes({})
      await data.main.commit(groupOf(insertionsOf(3)))
    })
    const rows = globSync(join(dataDir, 'collections/0/vectors.rows'))[0]!
    const bytes = readFileSync(rows)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(rows, bytes)
    assertEnded(await run(['doctor', '--repair', '--data-dir', dataDir]), 0)
    await withData(dataDir, async (data) => {
      assert.notEqual((await data.changes({})).id, begin.id)
    })
  })

  it('forgets what is stored elsewhere, and begins anew when its data are older than that', async () => {
    await using directory = await temporaryDirectory()
    await withData(join(directory.path, 'data'), async (data) => {
      const begin = await data.changes({})
      await data.main.commit(groupOf([insertion(0, 1)]))
      const { id, to } = await data.changes({ since: { id: begin.id, at: begin.to } })
      await data.main.commit(groupOf([insertion(1, 2)]))
      const next = await data.changes({ stored: { id, at: to } })
      // Only whole files are removed.
      await data.main.commit(groupOf([insertion(2, 3)]))
      await data.changes({ stored: { id, at: next.to } })
      assert.equal((await changesOf(data, begin)).range.start, next.to)
      assert.deepEqual(sequencesOf((await changesOf(data, next)).records), [[2, 3]])
      const other = await data.changes({ since: { id, at: to + 10_000 } })
      assert.deepEqual([other.id === id, other.from, other.to], [false, 0, 0])
    })
  })

  it('counts as disk space, which is free when it is stored elsewhere', async () => {
    await using directory = await temporaryDirectory()
    await withData(join(directory.path, 'data'), async (data) => {
      assert.equal(data.keepsChanges, false)
      const { id } = await data.changes({})
      await data.main.commit(groupOf([insertion(0, 1)]))
      assert.equal(data.keepsChanges, true)
      const { to } = await data.changes({})
      const before = data.diskBytes
      await data.changes({ stored: { id, at: to } })
      assert.ok(to > 0)
      assert.equal(before - data.diskBytes, to)
    })
  })

  it('ends when a point is deleted whose id is damaged', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const reasons: string[] = []
    await withData(
      dataDir,
      async (data) => {
        const { id } = await data.changes({})
        const added = insertion(0, 1)
        await data.main.commit(groupOf([added]))
        const { payloads } = openTables(dataDir).of(0, '')
        const value = payloads.getBinary(0)!
        value[0]! ^= 1
        payloads.putSync(0, value)
        await data.main.commit(groupOf([{ kind: 'delete', id: added.id, sequence: 2, slot: 0 }]))
        assert.equal(data.main.sequence, 2)
        assert.notEqual((await data.changes({})).id, id)
      },
      { logger: loggerTo(reasons) },
    )
    assert.match(reasons.join(), /a deleted point does not match its checksum/)
  })

  it('is not continued after it has ended, also after a restart', async () => {
    for (const way of ['too many', 'not writable']) {
      await using directory = await temporaryDirectory()
      const dataDir = join(directory.path, 'data')
      let begin!: JournalRange
      const maxChangesBytes = way === 'too many' ? 100 : 10_000
      await withData(
        dataDir,
        async (data) => {
          begin = await data.changes({})
          if (way === 'not writable') writeFileSync(join(dataDir, 'changes'), '')
          await data.main.commit(groupOf([insertion(0, 1)]))
        },
        { maxChangesBytes },
      )
      const reasons: string[] = []
      await withData(
        dataDir,
        async (data) => {
          const { range, records } = await changesOf(data, begin)
          assert.notEqual(range.id, begin.id, way)
          assert.deepEqual(sequencesOf(records), [])
        },
        { logger: loggerTo(reasons) },
      )
      // Its place was removed by the commit that ended it: nothing was left to end.
      assert.deepEqual(reasons, [], way)
    }
  })

  it('has few files after many backups and restarts', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    let begin: JournalRange | undefined
    for (let round = 0; round < 3; round += 1) {
      await withData(dataDir, async (data) => {
        begin ??= await data.changes({})
        await data.main.commit(groupOf([insertion(2 * round, 2 * round + 1)]))
        await data.changes({})
        await data.main.commit(groupOf([insertion(2 * round + 1, 2 * round + 2)]))
        const { records } = await changesOf(data, begin)
        assert.equal(sequencesOf(records).length, 2 * round + 2)
        // What it does not record, as the removal of entries, does not end it.
        await data.create({ name: 'docs' })
        await data.drop('docs')
      })
      assert.equal(readdirSync(join(dataDir, 'changes')).length, 1)
    }
  })

  it('makes no write fail when its files cannot be removed, and takes none of another journal for its own', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const noRemoval = `data:text/javascript,
      import fs from 'node:fs'
      import { syncBuiltinESMExports } from 'node:module'
      const { rmSync } = fs
      fs.rmSync = (path, options) => {
        if (String(path).includes('changes')) throw new Error('busy')
        rmSync(path, options)
      }
      syncBuiltinESMExports()`
    let again!: JournalRange
    await withData(
      dataDir,
      async (data) => {
        const { id } = await data.changes({})
        await data.main.commit(groupOf([insertion(0, 1)]))
        const { to } = await data.changes({})
        await data.changes({ stored: { id, at: to } })
        await data.main.commit(groupOf([insertion(1, 2)]))
        again = await data.changes({ since: { id, at: to + 10_000 } })
        await data.main.commit(groupOf([insertion(2, 3)]))
      },
      { writerExecArgv: ['--import', encodeURI(noRemoval)] },
    )
    assert.equal(readdirSync(join(dataDir, 'changes')).length, 2)
    await withData(dataDir, async (data) => {
      assert.deepEqual(sequencesOf((await changesOf(data, again)).records), [[2, 3]])
    })
    assert.equal(readdirSync(join(dataDir, 'changes')).length, 1)
  })

  it('begins anew after a clock that was ahead, and after another program has written', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const ahead = 'data:text/javascript,Date.now = () => 9e12'
    let begin!: JournalRange
    const reasons: string[] = []
    const logger = loggerTo(reasons)
    await withData(
      dataDir,
      async (data) => {
        begin = await data.changes({})
      },
      { writerExecArgv: ['--import', ahead] },
    )
    assert.equal(begin.timeMs, 9e12)
    await withData(
      dataDir,
      async (data) => {
        const { id, timeMs } = await data.changes({})
        assert.notEqual(id, begin.id)
        assert.ok(timeMs < 9e12)
        begin = await data.changes({})
        assert.equal(begin.id, id)
      },
      { logger },
    )
    assert.match(reasons.join(), /the clock was \d+ seconds ahead/)
    const { root, journal } = openTables(dataDir)
    journal.putSync(1, Buffer.from('x'))
    await root.close()
    await withData(dataDir, async (data) => assert.notEqual((await data.changes({})).id, begin.id), {
      logger,
    })
    assert.match(reasons.join(), /another program has written/)
  })
})

/** The number of points of the default collection in a directory. */
async function pointsIn(dataDir: string): Promise<number> {
  const { header } = await readSnapshot(snapshotOfData(readConfig({}, { dataDir })))
  return header.points
}

async function withData(
  dataDir: string,
  work: (data: DataStore) => Promise<void>,
  options: Partial<StoreOptions> = {},
): Promise<void> {
  const data = await openDataStore({ dataDir, logger: createLogger({ level: 'silent' }), ...options })
  try {
    await work(data)
  } finally {
    await data.close()
  }
}

function loggerTo(lines: string[]): Logger {
  return createLogger({ level: 'warn', write: (line: string) => lines.push(line) })
}

/** Reads the changes after the end of an earlier range. */
async function changesOf(
  data: DataStore,
  { id, to }: JournalRange,
): Promise<{ readonly range: JournalRange; readonly records: readonly ChangeRecord[] }> {
  const { chunks, ...range } = await data.changes({ since: { id, at: to } })
  const records: ChangeRecord[] = []
  for await (const record of recordsIn(chunks())) records.push(record)
  return { range, records }
}

function sequencesOf(records: readonly ChangeRecord[]): number[][] {
  return records.flatMap((record) => (record.kind === 'points' ? [[record.since, record.sequence]] : []))
}
