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
import { temporaryDirectory } from './support/process.ts'
import { readSnapshot } from './support/snapshots.ts'
import { groupOf, insertion } from './support/stored-points.ts'

describe('backups that are made at once', () => {
  it('lead to every moment, unless they are of copies that have gone separate ways', async () => {
    await using directory = await temporaryDirectory()
    const path = (name: string): string => join(directory.path, name)
    const backupsIn = (place: string): Promise<Backups> => Backups.open(new DirectoryObjects(path(place)))
    {
      await using data = await openDirectory(path('data'))
      await insert(data.store, 1)
      await (await begunBackup(await backupsIn('backups'), data.store))()
    }
    cpSync(path('data'), path('copy'), { recursive: true })
    cpSync(path('backups'), path('apart'), { recursive: true })
    await using data = await openDirectory(path('data'))
    const endFirst = await begunBackup(await backupsIn('backups'), data.store)
    const endSecond = await begunBackup(await backupsIn('backups'), data.store)
    await insert(data.store, 2)
    await endFirst()
    await insert(data.store, 3)
    const between = await nextMoment()
    await insert(data.store, 4)
    await endSecond()
    await insert(data.store, 5)
    await (await begunBackup(await backupsIn('backups'), data.store))()
    const backups = await backupsIn('backups')
    await restoreBackup(backups, await restorePoint(backups, between), path('restored'), silent)
    const { header } = await readSnapshot(snapshotOfData(readConfig({}, { dataDir: path('restored') })))
    assert.equal(header.points, 3)
    assert.equal(backups.all.length, 4)
    for (const backup of backups.all) await rehearseBackup(path('rehearsed'), backups, backup)

    const endHere = await begunBackup(await backupsIn('apart'), data.store)
    await using copy = await openDirectory(path('copy'))
    const endThere = await begunBackup(await backupsIn('apart'), copy.store)
    await endHere()
    await insert(copy.store, 2, 3, 4, 5)
    const later = await nextMoment()
    await insert(copy.store, 6)
    await endThere()
    const apart = await backupsIn('apart')
    await assert.rejects(
      restoreBackup(apart, await restorePoint(apart, later), path('never'), silent),
      /copies of a data directory that have gone separate ways/,
    )
  })
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
