import { existsSync } from 'node:fs'
import { type CollectionInfo, defaultCollection } from '../base/collection.ts'
import { BackupWriter, writeWholeFile } from '../service/stored-data.ts'
import { withClient } from './clients.ts'
import { collectionOf, defaultHttpUrl, type HttpOptions } from './connection.ts'
import { backupSummaryOf, createSnapshot } from './snapshot.ts'
import { snapshotBytes } from './snapshot-bytes.ts'
import { type Environment, UsageError } from './usage.ts'

/**
 * Writes all collections and aliases to one file, or a snapshot of the collection that the options name. The file
 * contains every write that any node acknowledged before. The bytes are verified as they arrive, and the file is
 * complete or not created.
 */
export async function createBackup(
  place: string,
  options: HttpOptions,
  environment: Environment,
): Promise<void> {
  if (collectionOf(options, environment) !== undefined) {
    return await createSnapshot(place, { ...options, isLatest: true }, environment)
  }
  if (existsSync(place)) throw new UsageError(`${place} already exists`)
  await writeWholeFile(`${place}.partial-${process.pid}`, async (file) => {
    const writer = new BackupWriter(file)
    const snapshot = (collection: string): AsyncIterable<Uint8Array> =>
      snapshotBytes({ ...options, collection, isLatest: true }, environment)
    const http = options.http ?? defaultHttpUrl(environment)
    const list = (): Promise<readonly CollectionInfo[]> =>
      withClient({ ...options, http }, environment, (client) => client.collections.list())
    const isMain = ({ name }: CollectionInfo): boolean => name === defaultCollection
    report(await writer.add((await list()).find(isMain)!, snapshot(defaultCollection)))
    // The snapshot waited for the log, so this list is as new as the snapshot.
    const infos = await list()
    for (const info of infos) if (!isMain(info)) report(await writer.add(info, snapshot(info.name)))
    const aliases = new Map(infos.flatMap((info) => info.aliases.map((alias) => [alias, info.name])))
    console.log(backupSummaryOf({ manifest: await writer.end(aliases) }))
    return place
  })
  console.log(place)
}

function report({ name, points, bytes }: { name: string; points: number; bytes: number }): void {
  console.error(`${name}: ${points} points, ${bytes} bytes`)
}
