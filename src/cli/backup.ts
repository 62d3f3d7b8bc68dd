import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { defaultCollection } from '../base/collection.ts'
import { BackupWriter, writeWholeFile } from '../service/stored-data.ts'
import { backupSummaryOf } from './snapshot.ts'
import { collectionsIn, type SourceOptions, snapshotBytes } from './snapshot-bytes.ts'
import { type Environment, UsageError } from './usage.ts'

/**
 * Writes all collections and aliases to a file, or into a directory under a name with the time. Contains every write
 * that any node acknowledged before. The bytes are verified as they arrive, and the file is complete or not created.
 */
export async function createBackup(
  place: string,
  options: SourceOptions,
  environment: Environment,
): Promise<void> {
  const isDirectory = existsSync(place) && statSync(place).isDirectory()
  if (!isDirectory && existsSync(place)) throw new UsageError(`${place} already exists`)
  const base = isDirectory ? join(place, 'vicinal.backup') : place
  const { path } = await writeWholeFile(`${base}.partial-${process.pid}`, async (file) => {
    const writer = new BackupWriter(file)
    const add = async (info: Parameters<BackupWriter['add']>[0]): Promise<void> => {
      const source = { ...options, collection: info.name, isLatest: true }
      const { name, points, bytes } = await writer.add(info, snapshotBytes(source, environment))
      console.error(`${name}: ${points} points, ${bytes} bytes`)
    }
    const isMain = ({ name }: { readonly name: string }): boolean => name === defaultCollection
    await add((await collectionsIn(options, environment)).find(isMain)!)
    // The snapshot waited for the log, so this list is as new as the snapshot.
    const infos = await collectionsIn(options, environment)
    for (const info of infos) if (!isMain(info)) await add(info)
    const aliases = new Map(infos.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name])))
    const manifest = await writer.end(aliases)
    console.log(backupSummaryOf({ manifest }))
    return isDirectory ? join(place, `vicinal-${manifest.createdAt.replaceAll(':', '')}.backup`) : place
  })
  console.log(path)
}
