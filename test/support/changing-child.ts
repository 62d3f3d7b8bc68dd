import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createLogger } from '../../src/base/log.ts'
import { openDataStore } from '../../src/storage/data-store.ts'
import type { Store } from '../../src/storage/store.ts'
import { openTables } from '../../src/storage/tables.ts'
import { groupOf, insertionsOf, refusedRequest, variedChanges } from './stored-points.ts'

/**
 * Opens a data directory and makes the named changes to its collections, one after the other, while
 * disk-steps-preload.ts counts its disk steps. The length of a file is the number of acknowledged changes.
 */

const [dataDir, countPath, donePath, oldPoints, ...changes] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
]
const data = await openDataStore({ dataDir, logger: createLogger({ level: 'silent', pretty: false }) })
const numberOf = (name: string): number => data.collections.get(name)!.number
const opened: Store[] = []
const open = async (name: string): Promise<Store> => {
  const store = await data.open(numberOf(name))
  opened.push(store)
  return store
}
const commitTo = async (name: string): Promise<void> => {
  const store = await open(name)
  await store.commit(groupOf(insertionsOf(3, store.slotCount)))
}
const actions: Readonly<Record<string, () => Promise<void>>> = {
  'first create': async () => {
    await data.create({ name: 'first', dimension: 5 })
  },
  // What others test: only the step that stops the counting is counted.
  fill: async () => {
    rmSync(countPath)
    await data.create({ name: 'empty' })
    const { number } = await data.create({ name: 'old' })
    await (await open('old')).commit(groupOf(insertionsOf(Number(oldPoints))))
    mkdirSync(data.indexDirectory(number))
    writeFileSync(join(data.indexDirectory(number), 'graph-0-0.bin'), 'x')
    await data.setAliases(new Map(['a', 'b', 'd'].map((alias) => [alias, 'old'])), [])
    for (const store of opened.splice(0)) await store.close()
    writeFileSync(countPath, '')
  },
  create: async () => {
    await data.create({ name: 'new', dimension: 5 })
  },
  'first insert': () => commitTo('empty'),
  'two inserts': async () => {
    await Promise.all([commitTo('empty'), commitTo('old')])
  },
  'varied changes': async () => {
    const store = await open('old')
    await store.commit(await variedChanges(store))
  },
  refusals: async () => (await open('old')).commit(groupOf([], [refusedRequest])),
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
writeFileSync(donePath, '')
writeFileSync(countPath, '')
for (const name of changes) {
  await actions[name]!()
  appendFileSync(donePath, '.')
  for (const store of opened.splice(0)) await store.close()
}
await data.close()
