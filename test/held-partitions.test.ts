import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { PartitionSet } from '../src/base/partitions.ts'
import type { Collection } from '../src/engine/collection.ts'
import { startEngine } from '../src/engine/engine.ts'
import { checkHeld, HeldPartitions } from '../src/engine/held-partitions.ts'
import type { LoggedRequest } from '../src/engine/logged-request.ts'
import { openDataStore } from '../src/storage/data-store.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const settings = {
  ...{ searchThreads: 1, indexThreads: 1, maxLimit: 100, hnswEf: 16, hnswM: 16, hnswEfConstruction: 16 },
  ...{ recallTarget: 0.98, maxOpenCollections: 10, maxQueuedQueries: 100, maxQueuedResults: 10_000 },
  ...{ maxBufferedBytes: 1024 * 1024, maxMemoryBytes: 0 },
  logger,
} as const

const some = PartitionSet.of([7, 8])
const others = PartitionSet.of([8, 9])

describe('the data directory of a node with some partitions', () => {
  it('can be reopened only for the same partitions', async () => {
    await withDirectory(async (dataDir) => {
      await withCollection(dataDir, some, async (collection) => {
        await collection.replica.apply(putOf('07'), { position: 1, nowUs: 1 }, some)
      })
      await withCollection(dataDir, PartitionSet.of(some), async (collection) => {
        assert.equal(collection.replica.position, 1)
        assert.equal(collection.points, 1)
      })
      const refusal = /holds points of partitions other than those in the topology of the cluster/
      await assert.rejects(
        withCollection(dataDir, others, async () => {}),
        refusal,
      )
      await assert.rejects(
        withCollection(dataDir, undefined, async () => {}),
        refusal,
      )
    })
  })

  it('is refused if it has points of all partitions', async () => {
    await withDirectory(async (dataDir) => {
      await withCollection(dataDir, undefined, async (collection) => {
        await collection.replica.apply(putOf('09'), { position: 1, nowUs: 1 })
      })
      await assert.rejects(
        withCollection(dataDir, some, async () => {}),
        /points of partitions other than/,
      )
    })
  })
})

async function withDirectory(use: (dataDir: string) => Promise<void>): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-held-'))
  try {
    await use(dataDir)
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function withCollection(
  dataDir: string,
  held: PartitionSet | undefined,
  use: (collection: Collection) => Promise<void>,
): Promise<void> {
  const engine = startEngine(settings)
  const store = await openDataStore({ dataDir, logger, dimension: 1 })
  try {
    checkHeld(store.main, held)
    const replica = {
      ...{
        logId: '0f'.repeat(16),
        held: held && new HeldPartitions(held),
        floor: () => ({ position: 0, clockUs: 0 }),
      },
      ...{ onDue: () => {}, expire: async () => {}, onStall: () => {} },
    }
    const collection = await engine.openCollection(store.main, { ...settings, replica })
    await use(collection)
    await collection.close()
  } finally {
    await engine.close(0)
    await store.close()
  }
}

function putOf(partition: string): LoggedRequest {
  return {
    ...{ kind: 'put', id: `${partition}000000-0000-4000-8000-000000000000` },
    point: { vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } },
  }
}
