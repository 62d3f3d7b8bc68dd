import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Filter } from '../src/base/filter.ts'
import { PartitionSet } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import { PartitionDigest } from '../src/storage/applied.ts'
import type { Store } from '../src/storage/store.ts'
import type { LoggedRequest } from '../src/write/requests.ts'
import { withDirectory, withoutCluster, withReplica } from './support/replica-collection.ts'

const some = PartitionSet.of([7, 8])

describe('a collection of a node', () => {
  it('has all stored points in its digest, also those that expire while it is loaded for the first time', async () => {
    await withDirectory(async (dataDir) => {
      const { payload } = putOf('07').point
      const attributes = new Map([['shop', 1]])
      const points = Array.from({ length: 20_000 }, (_, at) => ({
        vector: Float32Array.of(at),
        payload: { ...payload, attributes, ...(at % 2 === 0 ? { expiresAtUs: 2_000_000 } : {}) },
      }))
      await withoutCluster(dataDir, 1_000_000, async (collection) => {
        for (let at = 0; at < points.length; at += 1000) await collection.insert(points.slice(at, at + 1000))
      })
      await withReplica({ dataDir, clockUs: 3_000_000 }, async ({ replica, points: visible }) => {
        assert.equal(visible, 10_000)
        assert.equal(new PartitionDigest(replica.digest).points, 20_000)
      })
    })
  })

  it('cannot be opened without its cluster', async () => {
    await withDirectory(async (dataDir) => {
      await withReplica({ dataDir }, async ({ replica }) => {
        await replica.apply(putOf('07'), { position: 1, nowUs: 1 })
      })
      await assert.rejects(
        withoutCluster(dataDir, 1, async () => {}),
        /is that of a node of a cluster: set CLUSTER_NATS_URL/,
      )
    })
  })

  it('has the attributes of all its points after a kill, also of records older than points from another node', async () => {
    await withDirectory(async (dataDir) => {
      const file = join(dataDir, 'collections/0/index/attributes.bin')
      const { id, point } = putOf('07')
      const patchOf = (shop: number): LoggedRequest => ({
        kind: 'patch',
        id,
        patch: { set: new Map([['shop', shop]]) },
      })
      await withReplica({ dataDir, held: some }, async ({ replica }) => {
        await replica.apply(putOf('07'), { position: 1, nowUs: 1 }, some)
        await replica.apply(patchOf(1), { position: 2, nowUs: 1 }, some)
        // The other node has applied more of the log.
        const sequence = replica.numberAfter(100)
        const taken = { id: putOf('09').id, point, sequence, version: sequence, order: sequence }
        await replica.take([taken])
      })
      const saved = await readFile(file)
      await withReplica({ dataDir, held: some }, async ({ replica }) => {
        await replica.apply(patchOf(2), { position: 3, nowUs: 1 }, some)
      })
      // A killed process does not write the file.
      await writeFile(file, saved)
      await withReplica({ dataDir, held: some }, async (collection) => {
        const shop = (value: number): Filter => ({
          kind: 'condition',
          path: 'shop',
          test: { op: 'in', values: [value] },
        })
        const counts = [await collection.count(shop(1)), await collection.count(shop(2))]
        assert.deepEqual(counts, [0, 1])
        const { version } = (await collection.get(id))!
        assert.equal(collection.livePoints.table.versionOf(collection.livePoints.table.slotOf(id)), version)
      })
    })
  })

  it('reports a record that reads can see: when it takes effect, or earlier if points expire by its time', async () => {
    await withDirectory(async (dataDir) => {
      /** With each record, what is stored at that moment. */
      const seen: [number, number | undefined][] = []
      const onVisible = (position: number, store: Store): unknown =>
        seen.push([position, store.applied?.position])
      await withReplica({ dataDir, onVisible }, async ({ replica }) => {
        await replica.apply(putOf('07', 1_000_000), { position: 1, nowUs: 1 })
        await replica.apply(putOf('08'), { position: 2, nowUs: 999_999 })
        assert.deepEqual(seen.splice(0), [
          [1, 1],
          [2, 2],
        ])
        await replica.apply(putOf('09'), { position: 3, nowUs: 1_000_000 })
        assert.deepEqual(seen, [
          [3, 2],
          [3, 3],
        ])
      })
    })
  })

  it('reports what reads can see when it is opened again', async () => {
    await withDirectory(async (dataDir) => {
      await withReplica({ dataDir }, async ({ replica }) => {
        await replica.apply(putOf('07'), { position: 5, nowUs: 1 })
      })
      const seen: number[] = []
      const onVisible = (position: number): unknown => seen.push(position)
      await withReplica({ dataDir, onVisible }, async () => {
        assert.deepEqual(seen, [5])
      })
    })
  })

  it('shows a point that a record renews before a later record passes its time', async () => {
    await withDirectory(async (dataDir) => {
      await withReplica({ dataDir }, async (collection) => {
        const { id } = putOf('07')
        const { replica } = collection
        await replica.apply(putOf('07', 1_000_000), { position: 1, nowUs: 1 })
        const renewal = { kind: 'patch', id, patch: { expiresAtUs: null } } as const
        // Both records wait for the same group.
        const renewed = replica.apply(renewal, { position: 2, nowUs: 999_999 })
        let isOver = false
        const later = replica.apply(putOf('08'), { position: 3, nowUs: 1_000_000 }).then(() => {
          isOver = true
        })
        while (!isOver) {
          assert.ok(await collection.get(id), 'no record removes the point')
          await setImmediate()
        }
        await later
        const { version } = (await renewed) as { readonly version: number }
        assert.equal((await collection.get(id))?.version, version)
      })
    })
  })

  it('does not count expired points, also while their deletion takes effect', async () => {
    await withDirectory(async (dataDir) => {
      await withReplica({ dataDir }, async (collection) => {
        const { replica } = collection
        const idOf = (at: number): string => `07000000-0000-4000-8000-${String(at).padStart(12, '0')}`
        const point = (at: number, expiresAtUs?: number): NewPoint => ({
          ...putOf('07', expiresAtUs).point,
          id: idOf(at),
        })
        const points = Array.from({ length: 4000 }, (_, at) => point(at, at < 3000 ? 1_000_000 : undefined))
        const insert = { kind: 'insert', points, onError: 'abort', idSeed: new Uint8Array(16) } as const
        await replica.apply(insert, { position: 1, nowUs: 1 })
        assert.equal(await collection.pointsIn(PartitionSet.all()), 4000)
        const ids = points.slice(0, 3000).map(({ id }) => id!)
        let isOver = false
        const expired = replica.apply({ kind: 'expire', ids }, { position: 2, nowUs: 1_000_000 }).then(() => {
          isOver = true
        })
        const counts = new Set([4000])
        while (!isOver) {
          counts.add(await collection.pointsIn(PartitionSet.all()))
          await setImmediate()
        }
        await expired
        counts.add(await collection.pointsIn(PartitionSet.all()))
        assert.deepEqual([...counts], [4000, 1000])
      })
    })
  })
})

function putOf(partition: string, expiresAtUs?: number): LoggedRequest & { readonly kind: 'put' } {
  const payload = {
    contentType: 'Text',
    content: '',
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  } as const
  return {
    kind: 'put',
    id: `${partition}000000-0000-4000-8000-000000000000`,
    point: { vector: Float32Array.of(1), payload },
  }
}
