import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { DirectoryObjects } from '../src/cli/object-stores.ts'
import { readConfig } from '../src/config.ts'
import { Backups, BackupWriter, rehearseBackup, snapshotOfData } from '../src/service/stored-data.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import { restoreBackup, restorePoint } from '../src/storage/snapshot/backup-restore.ts'
import type { DataStore } from '../src/storage/store.ts'
import { run, temporaryDirectory } from './support/process.ts'
import { readSnapshot } from './support/snapshots.ts'
import { groupOf, insertion } from './support/stored-points.ts'

/** Stores a point in the data directory `data` of a directory, and a backup of it in `backups`. */
async function backedUp(directory: string) {
  const path = (name: string): string => join(directory, name)
  const backupsHere = (): Promise<Backups> => Backups.open(new DirectoryObjects(path('backups')))
  await using data = await openDirectory(path('data'))
  await insert(data.store, 1)
  await (await begunBackup(await backupsHere(), data.store))()
  return { path, backupsHere }
}

describe('backups that are made at once', () => {
  it('lead to every moment', async () => {
    await using directory = await temporaryDirectory()
    const { path, backupsHere } = await backedUp(directory.path)
    await using data = await openDirectory(path('data'))
    const endFirst = await begunBackup(await backupsHere(), data.store)
    const endSecond = await begunBackup(await backupsHere(), data.store)
    await insert(data.store, 2)
    await endFirst()
    await insert(data.store, 3)
    const between = await nextMoment()
    await insert(data.store, 4)
    await endSecond()
    await insert(data.store, 5)
    await (await begunBackup(await backupsHere(), data.store))()
    const backups = await backupsHere()
    await restoreBackup(backups, await restorePoint(backups, between), path('restored'), silent)
    const { header } = await readSnapshot(snapshotOfData(readConfig({}, { dataDir: path('restored') })))
    assert.equal(header.points, 3)
    assert.equal(backups.all.length, 4)
    for (const backup of backups.all) await rehearseBackup(path('rehearsed'), backups, backup)
  })

  for (const [more, sequences] of [
    ['as much', [2]],
    ['more', [2, 3]],
  ] as const) {
    it(`lead to no moment in between if they are of copies of which the later one has changed ${more}`, async () => {
      await using directory = await temporaryDirectory()
      const { path, backupsHere } = await backedUp(directory.path)
      cpSync(path('data'), path('copy'), { recursive: true })
      await using data = await openDirectory(path('data'))
      await using copy = await openDirectory(path('copy'))
      const endFirst = await begunBackup(await backupsHere(), data.store)
      const endSecond = await begunBackup(await backupsHere(), copy.store)
      await insert(data.store, 2)
      await endFirst()
      await insert(copy.store, ...sequences)
      const between = await nextMoment()
      await endSecond()
      await insert(copy.store, sequences.at(-1)! + 1)
      await (await begunBackup(await backupsHere(), copy.store))()
      const backups = await backupsHere()
      const ends = backups.all.map(async ({ name }) => (await backups.manifest(name)).changes!.to)
      const [, first, second] = await Promise.all(ends)
      assert.equal(first === second, more === 'as much')
      await assert.rejects(
        async () => restoreBackup(backups, await restorePoint(backups, between), path('never'), silent),
        { reason: 'not_found', message: /copies of the data directory that have gone separate ways/ },
      )
      for (const backup of backups.all) await rehearseBackup(path('rehearsed'), backups, backup)
      const { stdout } = await run(['backup', 'list', path('backups')])
      const isContinued = stdout
        .trim()
        .split('\n')
        .map((line) => line.includes('every moment since'))
      assert.deepEqual(isContinued, [false, true, false, true], stdout)
    })
  }
})

const silent = createLogger({ level: 'silent' })

async function openDirectory(dataDir: string): Promise<AsyncDisposable & { readonly store: DataStore }> {
  const store = await openDataStore({ dataDir, logger: silent })
  return { store, [Symbol.asyncDispose]: () => store.close() }
}

async function insert({ main }: DataStore, ...sequences: readonly number[]): Promise<void> {
  for (const sequence of sequences) await main.commit(groupOf([insertion(sequence - 1, sequence)]))
}

/** Begins a backup of the collection `default`. Returns what completes it. */
async function begunBackup(backups: Backups, data: DataStore): Promise<() => Promise<void>> {
  const writer = await BackupWriter.begin(backups, false)
  const begin = await data.changes({})
  return async () => {
    const snapshot = data.main.snapshot(() => {})
    await writer.add({ name: 'default', hnsw: {} }, snapshot.chunks({ since: writer.since('default') }))
    snapshot.close()
    const { isGap } = await writer.addChanges(begin, async function* (since) {
      yield* (await data.changes({ since })).chunks()
    })
    assert.equal(isGap, false)
    await writer.end(new Map(), { notesTime: true })
  }
}

/** Returns a time after what has happened, and before what happens next. */
async function nextMoment(): Promise<number> {
  // The times of a journal can be a millisecond ahead.
  const timeMs = Date.now() + 1
  while (Date.now() <= timeMs) await new Promise(setImmediate)
  return timeMs
}
