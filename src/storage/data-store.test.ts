import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { FailingDisk } from '../../test/support/failing-disk.ts'
import { noSmallDisk, SmallDisk } from '../../test/support/small-disk.ts'
import {
  asLoaded,
  contentsOf,
  groupOf,
  insertion,
  insertionsOf,
  type PlacedChange,
} from '../../test/support/stored-points.ts'
import { createLogger } from '../base/log.ts'
import { digestBytes, heldBytes } from './applied.ts'
import { Catalog, dataVersion, mainNumber } from './catalog.ts'
import { openDataStore, type StoreOptions } from './data-store.ts'
import { databasePath, leaveClosedMark, rowFilePath, takeClosedMark } from './files/data-directory.ts'
import { decodeMeta, emptyMeta, encodeMeta } from './key-layout.ts'
import { SnapshotReader } from './snapshot/snapshot-reader.ts'
import type {
  CollectionRecord,
  DataStore,
  Insertion,
  KeyedRequest,
  Snapshot,
  Store,
  WriteGroup,
} from './store.ts'
import { openDatabase } from './tables.ts'

const logger = createLogger({ level: 'silent', pretty: false })
let dataDir: string

beforeEach(() => {
  dataDir = join(mkdtempSync(join(tmpdir(), 'vicinal-collections-')), 'data')
})
afterEach(() => rmSync(join(dataDir, '..'), { recursive: true, force: true }))

async function withData<Result>(
  work: (data: DataStore) => Promise<Result>,
  options: Partial<StoreOptions> = {},
): Promise<Result> {
  const data = await openDataStore({ dataDir, logger, ...options })
  try {
    return await work(data)
  } finally {
    await data.close()
  }
}

async function filled(
  data: DataStore,
  name: string,
  points: readonly PlacedChange<Insertion>[],
): Promise<Store> {
  const { number } = await data.create({ name })
  const store = await data.open(number)
  if (points.length > 0) await store.commit(groupOf(points))
  return store
}

function numberOf(data: DataStore, name: string): number {
  return data.collections.get(name)!.number
}

/** The directories of collections. */
function directories(): string[] {
  return readdirSync(join(dataDir, 'collections'))
    .filter((name) => name !== 'reserve')
    .sort()
}

describe('named collections', () => {
  it('keep their points after reopening, and so does the default collection', async () => {
    const [docs, images, main] = [insertionsOf(2000), insertionsOf(3), insertionsOf(4)]
    const settings = { name: 'images', dimension: 5, hnsw: { m: 24, efConstruction: 300 } }
    let created: CollectionRecord
    await withData(async (data) => {
      await data.main.commit(groupOf(main))
      await filled(data, 'docs', docs)
      created = await data.create(settings)
      const store = await data.open(created.number)
      assert.equal(store.dimension, 5)
      assert.equal(store.rows()?.slotCount, 0)
      await store.commit(groupOf(images))
    })
    await withData(async (data) => {
      assert.deepEqual([...data.collections.keys()].sort(), ['docs', 'images'])
      assert.deepEqual(data.collections.get('images'), created)
      assert.deepEqual({ ...settings, number: 2, createdMs: created.createdMs }, created)
      assert.deepEqual([...(await contentsOf(data.main))], asLoaded(main))
      const store = await data.open(numberOf(data, 'docs'))
      assert.deepEqual([...(await contentsOf(store))], asLoaded(docs))
      assert.deepEqual([store.sequence, store.slotCount, store.dimension], [2000, 2000, 5])
      await store.commit(groupOf([{ kind: 'delete', slot: 3, id: docs[3]!.id, sequence: 2001 }]))
      assert.equal(store.record(3, docs[3]!.id), undefined)
      await store.close()
      const again = await data.open(numberOf(data, 'docs'))
      assert.equal((await contentsOf(again)).size, 1999)
      const other = await data.open(created.number)
      assert.deepEqual([...(await contentsOf(other))], asLoaded(images))
    })
  })

  it('accept groups concurrently, each in its own collection', async () => {
    const names = Array.from({ length: 8 }, (_, index) => `c${index}`)
    const rounds = 5
    await withData(async (data) => {
      const stores = await Promise.all(names.map((name) => filled(data, name, insertionsOf(1))))
      for (let round = 1; round <= rounds; round += 1) {
        const group = (index: number): readonly PlacedChange<Insertion>[] => [
          insertion(round, round + 1, `${names[index]} ${round}`),
        ]
        await Promise.all(stores.map((store, index) => store.commit(groupOf(group(index)))))
      }
    })
    await withData(async (data) => {
      for (const name of names) {
        const points = await contentsOf(await data.open(numberOf(data, name)))
        assert.deepEqual(
          [...points.values()].map(({ content }) => content),
          ['content 1', ...Array.from({ length: rounds }, (_, round) => `${name} ${round + 1}`)],
        )
      }
    })
  })

  it('each have their own keyed requests, sequence numbers and database id', async () => {
    const request = (key: number, points: number): KeyedRequest => ({
      keyHash: Buffer.alloc(16, key),
      bodyHash: Buffer.alloc(16, 7),
      idSeed: Buffer.alloc(16, key),
      points,
      acceptedMs: Date.now(),
      refused: [],
    })
    const ids = await withData(async (data) => {
      const [one, other] = [await filled(data, 'one', insertionsOf(1)), await filled(data, 'other', [])]
      const group = (sequence: number, points: number): WriteGroup =>
        groupOf([insertion(1, sequence)], [request(1, points)])
      await Promise.all([one.commit(group(2, 11)), other.commit(group(9, 22))])
      assert.equal(one.keyedRequest(Buffer.alloc(16, 1))?.points, 11)
      assert.equal(other.keyedRequest(Buffer.alloc(16, 1))?.points, 22)
      assert.equal(other.keyedRequest(Buffer.alloc(16, 2)), undefined)
      assert.equal(data.main.keyedRequest(Buffer.alloc(16, 1)), undefined)
      assert.deepEqual([one.sequence, other.sequence, data.main.sequence], [2, 9, 0])
      return [one, other].map((store) => databaseIdOf(store))
    })
    assert.equal(new Set(ids).size, 2)
    await withData(async (data) => {
      const one = await data.open(numberOf(data, 'one'))
      assert.deepEqual([one.keyedRequestCount, databaseIdOf(one)], [1, ids[0]])
      assert.equal(one.keyedRequest(Buffer.alloc(16, 1))?.points, 11)
    })
  })

  it('lose aliases, files and entries when they are dropped; their names can be reused, their numbers are not', async () => {
    await withData(async (data) => {
      const store = await filled(data, 'docs', insertionsOf(5000))
      await filled(data, 'kept', insertionsOf(2))
      await data.setAliases(new Map([...aliases, ['kept-alias', 'kept']]), [])
      mkdirSync(data.indexDirectory(1))
      writeFileSync(join(data.indexDirectory(1), 'graph-0-0.bin'), 'x')
      await store.close()
      await data.drop('docs')
      assert.deepEqual([...data.collections.keys()], ['kept'])
      assert.deepEqual([...data.aliases], [['kept-alias', 'kept']])
      assert.equal((await data.create({ name: 'docs' })).number, 3)
    })
    await withData(async (data) => {
      assert.deepEqual([...data.collections.keys()].sort(), ['docs', 'kept'])
      assert.deepEqual([...data.aliases], [['kept-alias', 'kept']])
      assert.equal((await contentsOf(await data.open(3))).size, 0)
      assert.equal((await contentsOf(await data.open(2))).size, 2)
    })
    await untilRemoved()
    assert.deepEqual(directories(), ['0', '2', '3'])
  })

  it('have aliases that change together, also those of the default collection', async () => {
    const expected = new Map([
      ['a', 'other'],
      ['c', 'docs'],
      ['main', 'default'],
    ])
    await withData(async (data) => {
      await data.create({ name: 'docs' })
      await data.create({ name: 'other' })
      await data.setAliases(new Map([...aliases, ['b', 'other'], ['main', 'default']]), [])
      await data.setAliases(
        new Map([
          ['a', 'other'],
          ['c', 'docs'],
        ]),
        ['b', 'unknown'],
      )
      assert.deepEqual(new Map(data.aliases), expected)
    })
    await withData(async (data) => assert.deepEqual(new Map(data.aliases), expected))
  })

  it('have snapshots of one collection, without anything of others', async () => {
    await withData(async (data) => {
      const store = await filled(data, 'docs', insertionsOf(20))
      await filled(data, 'other', insertionsOf(30))
      const snapshot = store.snapshot(() => {})
      const points: string[] = []
      const reader = await SnapshotReader.open(snapshot.chunks())
      await store.commit(groupOf([insertion(20, 21)]))
      for await (const { payload } of reader.points()) points.push(payload.content)
      snapshot.close()
      assert.deepEqual(
        points,
        insertionsOf(20).map(({ point }) => point.payload.content),
      )
    })
  })

  it('have snapshots that leave enough of LMDB readers for everything else', async () => {
    await withData(async (data) => {
      const points = insertionsOf(1)
      const stores: Store[] = []
      for (let index = 0; index < 33; index += 1) stores.push(await filled(data, `c${index}`, points))
      const snapshots: Snapshot[] = []
      for (const [index, store] of stores.slice(0, 32).entries()) {
        // After a commit, a snapshot takes a reader of its own.
        await store.commit(groupOf([insertion(1, 2)]))
        assert.equal(snapshots.push(store.snapshot(() => {})), index + 1)
      }
      const last = stores[32]!
      const isRefused = { reason: 'overloaded', message: /^snapshots of 32 collections are being read/ }
      assert.throws(() => last.snapshot(() => {}), isRefused)
      assert.throws(() => last.snapshot(() => {}), isRefused)
      const removal = { kind: 'delete', slot: 0, id: points[0]!.id, sequence: 3 } as const
      await Promise.all(stores.map((store) => store.commit(groupOf([removal]))))
      assert.equal((await contentsOf(last)).size, 0)
      snapshots.pop()!.close()
      snapshots.push(last.snapshot(() => {}))
      assert.throws(() => stores[31]!.snapshot(() => {}), isRefused)
      for (const snapshot of snapshots) snapshot.close()
      stores[31]!.snapshot(() => {}).close()
    })
  })

  it('use few descriptors and one more thread, even hundreds with points of 384 dimensions', async () => {
    const names = Array.from({ length: 250 }, (_, index) => `c${index}`)
    const points = Array.from({ length: 20 }, (_, slot) => insertion(slot, slot + 1, 'x', 384))
    await withData(async (data) => {
      await Promise.all(names.map(async (name) => (await filled(data, name, points)).close()))
    })
    await withData(async (data) => {
      const before = openFiles()
      const stores = await Promise.all(names.map((name) => data.open(numberOf(data, name))))
      for (const store of stores) {
        const contents = await contentsOf(store)
        assert.equal(contents.size, 20)
        assert.equal(contents.get(19)?.content, 'x')
      }
      // At most 64 row files at a time, LMDB, and a thread.
      assert.ok(openFiles() - before < 100, `${openFiles() - before} more descriptors`)
      await Promise.all(stores.map((store) => store.commit(groupOf([insertion(20, 21, 'y', 384)]))))
      assert.ok(openFiles() - before < 100)
      for (const store of stores) assert.equal((await contentsOf(store)).get(20)?.content, 'y')
    })
  })
})

const aliases = [
  ['a', 'docs'],
  ['b', 'docs'],
] as const

/** Opens and closes until the dropped collection is removed: closing only waits for the piece in progress. */
async function untilRemoved(): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    if (!directories().includes('1')) return
    await withData(async () => {})
  }
}

function databaseIdOf(store: Store): string {
  const snapshot = store.snapshot(() => {})
  snapshot.close()
  return snapshot.databaseId
}

function openFiles(): number {
  return readdirSync('/proc/self/fd').length
}

describe('the format of a data directory', () => {
  it('does not change when a program opens and closes it', async () => {
    await withData((data) => data.main.commit(groupOf(insertionsOf(10))))
    const files = readdirSync(dataDir)
    const paths = [rowFilePath(dataDir, mainNumber), databasePath(dataDir)]
    const before = paths.map((path) => readFileSync(path))
    await withData(async (data) => {
      assert.deepEqual([...data.collections], [])
      await data.setAliases(new Map(), ['unknown'])
    })
    assert.deepEqual(readdirSync(dataDir), files)
    for (const [index, path] of paths.entries()) assert.deepEqual(readFileSync(path), before[index])
  })

  it('has a meta record for each collection, which holds the state of a replica', () => {
    const state = { ...emptyMeta, dimension: 3, sequence: 7, slotCount: 2, pointCount: 1 }
    const keyedRequests = { first: 5, count: 6, refusalBytes: 2 ** 40 + 3 }
    const applied = {
      logId: '0f'.repeat(16),
      position: 2 ** 40,
      clockUs: 5,
      floor: 6,
      floorClockUs: 7,
      base: 8,
      digest: Uint8Array.from({ length: digestBytes }, (_, at) => at),
    }
    const ofPart = { ...applied, held: Uint8Array.from({ length: heldBytes }, (_, at) => 7 * at) }
    const cases = [
      { meta: emptyMeta, bytes: 48 },
      { meta: { ...state, keyedRequests }, bytes: 48 },
      { meta: { ...state, applied }, bytes: 3176 },
      { meta: { ...state, keyedRequests, applied: ofPart }, bytes: 3208 },
    ]
    for (const { meta, bytes } of cases) {
      const value = encodeMeta(meta)
      assert.equal(value.length, bytes)
      assert.deepEqual(decodeMeta(value), meta)
      value[7]! ^= 1
      assert.equal(decodeMeta(value), undefined)
    }
  })

  it('has a version number, which any program can report', async () => {
    await withData(async () => {})
    const opened = await openDatabase(dataDir, false)
    const { catalog } = opened.tables
    const headKey = 2 ** 32 - 1
    for (const version of [2, dataVersion + 1]) {
      const head = Buffer.from(catalog.getBinary(headKey)!)
      head.writeUInt32LE(version)
      opened.root.transactionSync(() => catalog.putSync(headKey, head))
      assert.throws(
        () => new Catalog().read(catalog, 'collections.mdb', []),
        new RegExp(`it has format version ${version}, this program reads ${dataVersion}. Nothing is damaged`),
      )
    }
    await opened.root.close()
  })

  it('is only checked page by page after a stop without a close, or when its file has changed', async () => {
    await withData((data) => data.main.commit(groupOf(insertionsOf(2))))
    const checks = (): boolean => {
      const isClosed = takeClosedMark(dataDir)
      if (isClosed) leaveClosedMark(dataDir)
      return !isClosed
    }
    assert.equal(checks(), false)
    const database = readFileSync(databasePath(dataDir))
    writeFileSync(databasePath(dataDir), database)
    assert.equal(checks(), true)
    await withData(async () => {})
    assert.equal(checks(), false)
    await withData(async () => assert.equal(checks(), true))
    database.fill(0, 2 * 4096)
    writeFileSync(databasePath(dataDir), database)
    await assert.rejects(
      withData(async () => {}),
      /collections\.mdb cannot be used: page/,
    )
  })

  it('is refused when its catalog is lost, and nothing is removed', async () => {
    await withData(async (data) => filled(data, 'docs', insertionsOf(2)))
    rmSync(join(dataDir, 'collections.mdb'))
    await assert.rejects(
      withData(async () => {}),
      /collections\.mdb cannot be used: it is missing, though/,
    )
    await assert.rejects(
      withData(async () => {}),
      /collections\.mdb cannot be used: it is missing, though/,
    )
    assert.ok(existsSync(join(dataDir, 'collections/1/vectors.rows')))
  })
})

describe('a disk that fails', () => {
  it('only blocks the collection whose write it fails', async () => {
    using disk = new FailingDisk()
    await withData(
      async (data) => {
        const [one, other] = [await filled(data, 'one', insertionsOf(1)), await filled(data, 'other', [])]
        for (const operation of ['write', 'fdatasync'] as const) {
          disk.fail({ operation, code: 'ENOSPC' })
          const sequence = one.sequence + 1
          const outcomes = await Promise.allSettled([
            one.commit(groupOf([insertion(sequence, sequence)])),
            other.commit(groupOf([insertion(other.slotCount, other.sequence + 1)])),
          ])
          assert.equal(disk.left, 0)
          assert.deepEqual(
            outcomes.map(({ status }) => status),
            ['rejected', 'fulfilled'],
          )
          assert.equal((outcomes[0] as PromiseRejectedResult).reason.reason, 'disk_full')
        }
        await one.commit(groupOf([insertion(1, 5)]))
        assert.deepEqual([(await contentsOf(one)).size, (await contentsOf(other)).size], [2, 2])
      },
      { writerExecArgv: disk.execArgv },
    )
  })

  it('otherwise stops writes to all collections; reads continue', async () => {
    using disk = new FailingDisk()
    const reported: unknown[] = []
    await withData(
      async (data) => {
        const points = insertionsOf(1)
        const [one, other] = [await filled(data, 'one', points), await filled(data, 'other', [])]
        disk.fail({ operation: 'fdatasync', code: 'EIO' })
        const refusal = { reason: 'internal', message: /writes are stopped until the server is restarted/ }
        await assert.rejects(one.commit(groupOf([insertion(1, 2)])), refusal)
        await assert.rejects(other.commit(groupOf([insertion(1, 2)])), refusal)
        await assert.rejects(data.create({ name: 'third' }), refusal)
        await assert.rejects(data.main.commit(groupOf([insertion(0, 1)])), refusal)
        assert.deepEqual(one.record(0, points[0]!.id)?.payload, points[0]!.point.payload)
        assert.deepEqual(reported, ['disk_failed'])
      },
      { writerExecArgv: disk.execArgv, onWritesBlocked: (reason) => reported.push(reason) },
    )
    await withData(async (data) => {
      assert.deepEqual([...data.collections.keys()].sort(), ['one', 'other'])
      assert.equal((await contentsOf(await data.open(1))).size, 1)
    })
  })

  it('whose file system is read-only opens collections for reading', async (context) => {
    using disk = SmallDisk.mountExt4(16 * 1024 * 1024)
    if (disk === undefined) return context.skip('mounting an ext4 file system needs root')
    const onDisk = { dataDir: join(disk.path, 'data') }
    await withData(async (data) => {
      await filled(data, 'used', insertionsOf(1))
      await filled(data, 'unused', insertionsOf(2))
    }, onDisk)
    await withData(async (data) => {
      const open = (name: string): Promise<Store> => data.open(data.collections.get(name)!.number)
      const used = await open('used')
      disk.failToReadOnly()
      const unused = await open('unused')
      for (const store of [unused, used]) {
        const change = groupOf([insertion(store.slotCount, store.sequence + 1)])
        await assert.rejects(store.commit(change), /writes are stopped .*; reads continue/)
      }
      assert.deepEqual([(await contentsOf(used)).size, (await contentsOf(unused)).size], [1, 2])
      await unused.close()
      assert.equal((await contentsOf(await open('unused'))).size, 2)
    }, onDisk)
  })

  it('whose files cannot be opened for now fails only the changes that need them', async () => {
    using disk = new FailingDisk()
    const reported: unknown[] = []
    await withData(
      async (data) => {
        const other = await filled(data, 'other', insertionsOf(1))
        const refusal = { reason: 'files_exhausted', message: /too many open files or too little memory/ }
        for (const [index, code] of (['EMFILE', 'ENFILE', 'ENOMEM'] as const).entries()) {
          const one = await filled(data, `one${index}`, [])
          disk.fail({ operation: 'open', code })
          const outcomes = await Promise.allSettled([
            one.commit(groupOf(insertionsOf(1))),
            other.commit(groupOf([insertion(other.slotCount, other.sequence + 1)])),
          ])
          assert.equal(disk.left, 0)
          assert.deepEqual(
            outcomes.map(({ status }) => status),
            ['rejected', 'fulfilled'],
          )
          assert.throws(() => {
            throw (outcomes[0] as PromiseRejectedResult).reason
          }, refusal)
          await one.commit(groupOf(insertionsOf(1)))

          const before = directories()
          disk.fail({ operation: 'open', code })
          await assert.rejects(data.create({ name: `other${index}`, dimension: 5 }), refusal)
          assert.equal(disk.left, 0)
          assert.deepEqual(directories(), before)
          await data.create({ name: `other${index}`, dimension: 5 })
          assert.equal((await contentsOf(one)).size, 1)
        }
        assert.equal((await contentsOf(other)).size, 4)
        assert.deepEqual(reported, [])
      },
      { writerExecArgv: disk.execArgv, onWritesBlocked: (reason) => reported.push(reason) },
    )
    await withData(async (data) => assert.equal(data.collections.size, 7))
  })

  it('accepts deletions and drops when it is really full, and others can use the freed space', async (context) => {
    using small = SmallDisk.mount(24 * 1024 * 1024)
    if (small === undefined) return context.skip(noSmallDisk)
    rmSync(join(dataDir, '..'), { recursive: true })
    dataDir = join(small.path, 'data')
    await withData(async (data) => {
      const [one, other] = [await filled(data, 'one', []), await filled(data, 'other', insertionsOf(1))]
      const ids: string[] = []
      const fill = async (store: Store): Promise<void> => {
        for (;;) {
          const { slotCount: slot, sequence } = store
          const points = [0, 1, 2, 3].map((at) => insertion(slot + at, sequence + at + 1, 'x'.repeat(5000)))
          await store.commit(groupOf(points))
          for (const { id } of points) ids.push(id)
        }
      }
      await assert.rejects(fill(one), { reason: 'disk_full' })
      await assert.rejects(data.create({ name: 'third', dimension: 5 }), { reason: 'disk_full' })
      const stored = one.slotCount
      for (let slot = 0; slot < 40; slot += 1) {
        const sequence = one.sequence + 1
        await one.commit(groupOf([{ kind: 'delete', slot, id: ids[slot]!, sequence }]))
      }
      assert.equal((await contentsOf(one)).size, stored - 40)
      await other.commit(groupOf([insertion(1, 2, 'y'.repeat(5000))]))
      await one.close()
      await data.drop('one')
      assert.deepEqual([...data.collections.keys()], ['other'])
    })
    await withData(async (data) => {
      assert.deepEqual([...data.collections.keys()], ['other'])
      assert.equal((await contentsOf(await data.open(2))).size, 2)
    })
  })
})
