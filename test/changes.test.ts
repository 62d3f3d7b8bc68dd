import { describe, it } from 'node:test'
import { readConfig } from '../src/config.ts'
import { ChangingCollection } from './support/changing-collection.ts'
import { openCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'

const config = readConfig({ SEARCH_THREADS: '1', INDEX_THREADS: '1' })

describe('a collection agrees with a plain list of points', () => {
  for (const seed of [1, 2, 3]) {
    it(`through changes of all kinds, expiry and restarts: seed ${seed}`, async () => {
      await using directory = await temporaryDirectory()
      const points = new ChangingCollection(seed)
      for (let restart = 0; restart < 4; restart += 1) {
        const settings = { ...config, nowUs: () => points.nowUs }
        await using opened = await openCollection(directory.path, settings)
        await points.check(opened.collection)
        for (let round = 0; round < 12; round += 1) {
          for (let change = 0; change < 10; change += 1) await points.change(opened.collection)
          await points.check(opened.collection)
        }
      }
    })
  }
})
