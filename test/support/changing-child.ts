import { writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { createLogger } from '../../src/base/log.ts'
import { openDataStore } from '../../src/storage/data-store.ts'
import { openTables } from '../../src/storage/tables.ts'
import { groupOf, insertionsOf, refusedRequest, variedChanges } from './stored-points.ts'

/** Opens a data directory and makes one change to its collections while disk-steps-preload.ts counts its disk steps. */

const [dataDir, what, countPath, donePath] = process.argv.slice(2) as [string, string, string, string]
const data = await openDataStore({ dataDir, logger: createLogger({ level: 'silent', pretty: false }) })
const numberOf = (name: string): number => data.collections.get(name)!.number
const commitTo = async (name: string): Promise<void> => {
  const store = await data.open(numberOf(name))
  await store.commit(groupOf(insertionsOf(3, store.slotCount)))
}
const actions: Readonly<Record<string, () => Promise<void>>> = {
  create: async () => {
    await data.create({ name: 'new', dimension: 5 })
  },
  'first insert': () => commitTo('empty'),
  'two inserts': async () => {
    await Promise.all([commitTo('empty'), commitTo('old')])
  },
  changes: async () => {
    const store = await data.open(numberOf('old'))
    await store.commit(await variedChanges(store))
  },
  refusals: async () => {
    const store = await data.open(numberOf('old'))
    await store.commit(groupOf([], [refusedRequest]))
  },
  aliases: () =>
    data.setAliases(
      new Map([
        ['a', 'empty'],
        ['c', 'default'],
      ]),
      ['b'],
    ),
  drop: async () => {
    const number = numberOf('old')
    await data.drop('old')
    const { root, catalog } = openTables(dataDir)
    while (catalog.getBinary(number) !== undefined) {
      await delay(1)
      root.resetReadTxn()
    }
  },
}
writeFileSync(countPath, '')
await actions[what]!()
writeFileSync(donePath, '')
await data.close()
