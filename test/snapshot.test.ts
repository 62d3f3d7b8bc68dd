import assert from 'node:assert/strict'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { crc32 } from 'node:zlib'
import { createLogger } from '../src/base/log.ts'
import { newId } from '../src/base/partitions.ts'
import { distanceMetrics, type NewPoint } from '../src/base/point.ts'
import { createHttpClient, type VectorClient } from '../src/client/index.ts'
import type { Collection } from '../src/collections/collection.ts'
import { readConfig } from '../src/config.ts'
import { openStore } from '../src/storage/data-store.ts'
import { rowBytesOf, rowsHeaderBytes } from '../src/storage/key-layout.ts'
import { snapshotHeaderBytes } from '../src/storage/snapshot/snapshot-format.ts'
import { SnapshotReader } from '../src/storage/snapshot/snapshot-reader.ts'
import { restoreSnapshot } from '../src/storage/snapshot/snapshot-restore.ts'
import type { Insertion } from '../src/storage/store.ts'
import { withCollection } from './support/collection.ts'
import { FailingDisk } from './support/failing-disk.ts'
import { insertIds } from './support/insert-ids.ts'
import { Command, run, temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom, type VectorKind, vectorKinds } from './support/random.ts'
import { startTestService } from './support/service.ts'
import { noSmallDisk, SmallDisk } from './support/small-disk.ts'
import { bytesOf, pieces, readSnapshot } from './support/snapshots.ts'
import { groupOf, type PlacedChange } from './support/stored-points.ts'
import { until } from './support/until.ts'

const logger = createLogger({ level: 'silent', pretty: false })

function withPoints<Result>(
  dataDir: string,
  work: (collection: Collection) => Promise<Result>,
): Promise<Result> {
  return withCollection(dataDir, readConfig({ THREADS: '1' }), work)
}

/** The snapshot of a directory that no process uses. */
async function snapshotOf(dataDir: string): Promise<Buffer> {
  const store = await openStore({ dataDir, logger })
  try {
    return await bytesOf(store.snapshot(() => {}).chunks())
  } finally {
    await store.close()
  }
}

function pointOf(random: () => number, dimension: number, content: string, kind?: VectorKind): NewPoint {
  const chosen = kind ?? vectorKinds[Math.floor(random() * vectorKinds.length)]!
  const contentType = random() < 0.5 ? 'Text' : 'Image'
  return { vector: randomVector(random, dimension, chosen), payload: { contentType, content } }
}

/**
 * The requested changes in the order of their sequence numbers. Each inserted point and each removal takes one number.
 * They determine the points that the engine must hold at any sequence number.
 */
class History {
  readonly #changes: { readonly sequence: number; readonly apply: (state: Map<string, NewPoint>) => void }[] =
    []
  readonly #underWay: Promise<unknown>[] = []
  readonly #live: string[] = []
  readonly #collection: Collection
  readonly #random: () => number
  #sequence = 0

  constructor(collection: Collection, random: () => number) {
    this.#collection = collection
    this.#random = random
  }

  /** Requests an insert, or the removal of a point that is certainly stored. */
  change(points: readonly NewPoint[]): void {
    if (this.#live.length > 0 && this.#random() < 0.7) this.#remove()
    else this.#insert(points)
  }

  #insert(points: readonly NewPoint[]): void {
    const first = this.#sequence
    this.#sequence += points.length
    const inserted = insertIds(this.#collection, points).then((ids) => {
      for (const [index, id] of ids.entries()) {
        this.#live.push(id)
        this.#changes.push({ sequence: first + index + 1, apply: (state) => state.set(id, points[index]!) })
      }
    })
    this.#underWay.push(inserted)
  }

  #remove(): void {
    const [id] = this.#live.splice(Math.floor(this.#random() * this.#live.length), 1)
    this.#sequence += 1
    this.#changes.push({ sequence: this.#sequence, apply: (state) => state.delete(id!) })
    this.#underWay.push(this.#collection.remove(id!))
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.splice(0))
  }

  at(sequence: number): Map<string, NewPoint> {
    const state = new Map<string, NewPoint>()
    const changes = this.#changes.filter((change) => change.sequence <= sequence)
    for (const { apply } of changes.sort((a, b) => a.sequence - b.sequence)) apply(state)
    return state
  }
}

type Held = ReadonlyMap<string, NewPoint>

/** The ids of points that are not equal in both, bit for bit. */
function differences(actual: Held, expected: Held): string[] {
  const ids = new Set([...actual.keys(), ...expected.keys()])
  return [...ids].filter((id) => {
    const [is, was] = [actual.get(id), expected.get(id)]
    return is === undefined || was === undefined || !isDeepStrictEqual(contentOf(is), contentOf(was))
  })
}

/** The parts to compare with `isDeepStrictEqual`, which distinguishes -0 from 0. */
function contentOf({ vector, payload }: NewPoint): object {
  return { vector, payload }
}

/** Points that overflow the buffers of a connection many times: by their contents, so that no graph is built. */
const bigDimension = 4
const bigCount = 800

async function fillBig(client: VectorClient): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < bigCount) {
    const points = Array.from({ length: 200 }, (_, index) => ({
      vector: new Float32Array(bigDimension).fill(ids.length + index),
      payload: { contentType: 'Text' as const, content: 'x'.repeat(20_000) },
    }))
    ids.push(...(await client.insertBatch(points)))
  }
  return ids
}

const take = (httpUrl: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${httpUrl}/snapshots`, { method: 'POST', ...init })

describe('a snapshot', () => {
  it('has exactly the changes up to its sequence number, during inserts, deletes and reuse of slots', async () => {
    const seed = 52
    const random = seededRandom(seed)
    await using directory = await temporaryDirectory()
    await withPoints(directory.path, async (collection) => {
      const history = new History(collection, random)
      const sequences = new Set<number>()
      const change = (): void =>
        history.change(
          Array.from({ length: 1 + Math.floor(random() * 5) }, () =>
            pointOf(random, 300, 'x'.repeat(Math.floor(random() * 6000))),
          ),
        )
      for (let round = 0; round < 6; round += 1) {
        for (let count = 0; count < 80; count += 1) change()
        if (random() < 0.5) await history.settled()
        else await delay(random() * 5)
        const snapshot = collection.snapshot()
        async function* slowly(): AsyncGenerator<Buffer> {
          for await (const chunk of snapshot.chunks()) {
            yield chunk
            for (let count = 0; count < 10; count += 1) change()
            await history.settled()
          }
        }
        const { header, points } = await readSnapshot(slowly())
        snapshot.close()
        await history.settled()
        sequences.add(header.sequence)
        assert.equal(header.sequence, snapshot.sequence)
        assert.equal(points.size, header.points)
        assert.deepEqual(differences(points, history.at(header.sequence)), [], `seed ${seed}, round ${round}`)
      }
      assert.ok(sequences.size > 4)
    })
  })

  it('keeps points that are deleted after it, although all their slots could be reused', async () => {
    await using directory = await temporaryDirectory()
    await withPoints(directory.path, async (collection) => {
      const points = (name: string): NewPoint[] =>
        Array.from({ length: 1500 }, (_, index) => pointOf(seededRandom(index), 64, `${name} ${index}`))
      const ids = await insertIds(collection, points('old'))
      const snapshot = collection.snapshot()
      const chunks = snapshot.chunks()
      const first = [await chunks.next(), await chunks.next()].map(({ value }) => value as Buffer)
      await Promise.all(ids.map((id) => collection.remove(id)))
      await collection.insert(points('new'))
      const rest = await bytesOf(chunks)
      snapshot.close()
      const read = await readSnapshot(pieces(Buffer.concat([...first, rest])))
      assert.deepEqual([...read.points.keys()].sort(), [...ids].sort())
      assert.ok([...read.points.values()].every(({ payload }) => payload.content.startsWith('old')))
      assert.equal(read.header.sequence, 1500)
    })
  })

  it('goes on when a write fails and LMDB can still read', async () => {
    await using directory = await temporaryDirectory()
    using disk = new FailingDisk()
    const store = await openStore({
      dataDir: join(directory.path, 'data'),
      logger,
      writerExecArgv: disk.execArgv,
    })
    const insertion = (slot: number): PlacedChange<Insertion> => {
      const id = newId()
      const point = pointOf(seededRandom(slot), 300, 'x'.repeat(2000))
      return { kind: 'insert', slot, id, sequence: slot + 1, point }
    }
    const insertions = Array.from({ length: 2000 }, (_, slot) => insertion(slot))
    await store.commit(groupOf(insertions))
    let closed = 0
    const snapshot = store.snapshot(() => {
      closed += 1
    })
    const chunks = snapshot.chunks()
    const first: Buffer[] = []
    for (let count = 0; count < 3; count += 1) first.push((await chunks.next()).value as Buffer)
    disk.fail({ operation: 'fdatasync', code: 'EIO' })
    await assert.rejects(store.commit(groupOf([insertion(2000)])), /the disk failed/)
    // By then the writer has closed its side.
    await delay(100)
    const { points } = await readSnapshot(pieces(Buffer.concat([...first, await bytesOf(chunks)])))
    assert.equal(points.size, 2000)
    assert.equal(closed, 0)
    snapshot.close()
    assert.equal(store.record(0, insertions[0]!.id)?.payload.content.length, 2000)
    await store.close()
    assert.equal(closed, 1)
  })

  it('fails at damaged data', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    await withPoints(dataDir, (collection) =>
      collection.insert(
        Array.from({ length: 50 }, (_, index) => pointOf(seededRandom(index), 9, `${index}`)),
      ),
    )
    const path = join(dataDir, 'collections/0/vectors.rows')
    const bytes = readFileSync(path)
    bytes[rowsHeaderBytes + 31 * rowBytesOf(9) + 40]! ^= 1
    writeFileSync(path, bytes)
    const ended = await run(['snapshot', 'create', join(directory.path, 'copy'), '--data-dir', dataDir])
    assert.equal(ended.code, 1)
    assert.match(
      ended.stderr,
      /vectors\.rows cannot be used: collection default: the row of slot 31 is damaged/,
    )
    assert.deepEqual(readdirSync(directory.path), ['data'])
  })

  it('of an empty database restores to an empty one, with the same dimension if it is fixed', async () => {
    await using directory = await temporaryDirectory()
    for (const dimension of [undefined, 7]) {
      const [from, to] = [join(directory.path, `from ${dimension}`), join(directory.path, `to ${dimension}`)]
      await (await openStore({ dataDir: from, logger, ...(dimension ? { dimension } : {}) })).close()
      const bytes = await snapshotOf(from)
      await restoreSnapshot(await SnapshotReader.open(pieces(bytes)), to, logger)
      const restored = await openStore({ dataDir: to, logger })
      assert.deepEqual([restored.dimension, restored.slotCount, restored.sequence], [dimension, 0, 0])
      await restored.close()
    }
  })

  for (const kept of [0, 4096, 5000]) {
    it(`restores to a database that can be opened if ${kept} points are left after a deletion`, async () => {
      await using directory = await temporaryDirectory()
      const [from, to] = [join(directory.path, 'from'), join(directory.path, 'to')]
      const random = seededRandom(kept)
      const ids = await withPoints(from, async (collection) => {
        const points = Array.from({ length: kept + 1 }, (_, index) => pointOf(random, 3, `${index}`))
        const [first, ...others] = await insertIds(collection, points)
        await collection.remove(first!)
        return others
      })
      await restoreSnapshot(await SnapshotReader.open(pieces(await snapshotOf(from))), to, logger)
      await withPoints(to, async (collection) => {
        assert.equal(collection.stats.points, kept)
        assert.equal(collection.stats.sequence, kept + 2)
        for (const id of ids.slice(-3)) assert.ok(await collection.get(id))
        const [added] = await insertIds(collection, [pointOf(random, 3, 'added')])
        assert.equal((await collection.get(added!))?.payload.content, 'added')
      })
      await withPoints(to, async (collection) => assert.equal(collection.stats.points, kept + 1))
    })
  }
})

describe('a restored service', () => {
  it('has the same ids, vectors and payloads, and returns all results in the same order, including ties', async () => {
    const seed = 53
    const random = seededRandom(seed)
    await using original = await startTestService()
    await using directory = await temporaryDirectory()
    const client = createHttpClient({ baseUrl: original.httpUrl })
    const insert = async (count: number): Promise<readonly string[]> =>
      client.insertBatch(
        Array.from({ length: count }, (_, index) => pointOf(random, 5, `"${index}"\n🦊`, 'small integers')),
      )
    // New points reuse the slots of deleted ones, so insertion order and slot order differ.
    const first = await insert(90)
    for (const id of first.slice(0, 40)) await client.delete(id)
    const ids = [...first.slice(40), ...(await insert(60))]
    await client.delete(ids.pop()!)

    const file = join(directory.path, 'copy.snapshot')
    const dataDir = join(directory.path, 'restored')
    const created = await run(['snapshot', 'create', file, '--http', original.httpUrl])
    assert.deepEqual([created.code, created.stderr], [0, ''])
    const [summary, path] = created.stdout.split('\n')
    assert.match(summary!, /^109 points of 5 dimensions, sequence 191 of database [-0-9a-f]{36}$/)
    assert.equal(path, file)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const verified = await run(['snapshot', 'verify', file])
    assert.equal(verified.stdout, `${summary}: every byte is undamaged\n`)
    const restored = await run(['snapshot', 'restore', file, '--data-dir', dataDir])
    assert.deepEqual([restored.code, restored.stderr], [0, ''])

    await using copy = await startTestService({ DATA_DIR: dataDir })
    const copyClient = createHttpClient({ baseUrl: copy.httpUrl })
    for (const id of ids) assert.deepEqual(await copyClient.get(id), await client.get(id))
    for (const metric of distanceMetrics) {
      for (let query = 0; query < 10; query += 1) {
        const vector = randomVector(random, 5, 'small integers')
        const answers = [client, copyClient].map((each) => each.search({ vector, metric, limit: 1000 }))
        const [was, is] = await Promise.all(answers)
        assert.equal(was!.length, ids.length)
        assert.deepEqual(is, was, `seed ${seed}, ${metric}`)
      }
    }
    // The sequence continues: the last change before the snapshot was a deletion.
    await copyClient.insert(pointOf(random, 5, 'later'))
    assert.equal((await take(copy.httpUrl)).headers.get('vicinal-sequence'), '192')
  })

  it('produces the same snapshot again, except for the database id', async () => {
    await using directory = await temporaryDirectory()
    const [from, to] = [join(directory.path, 'from'), join(directory.path, 'to')]
    await withPoints(from, async (collection) => {
      const random = seededRandom(54)
      const ids = await insertIds(
        collection,
        Array.from({ length: 200 }, (_, index) => pointOf(random, 33, `${index}`)),
      )
      await Promise.all(ids.slice(50, 100).map((id) => collection.remove(id)))
    })
    const first = await snapshotOf(from)
    await restoreSnapshot(await SnapshotReader.open(pieces(first)), to, logger)
    const second = await snapshotOf(to)
    assert.equal(second.length, first.length)
    const [was, is] = [await readSnapshot(pieces(first)), await readSnapshot(pieces(second))]
    assert.deepEqual([...is.points], [...was.points])
    assert.notEqual(is.header.databaseId, was.header.databaseId)
    assert.deepEqual({ ...is.header, databaseId: '' }, { ...was.header, databaseId: '' })
  })
})

describe('a snapshot file', () => {
  let small: Promise<Buffer> | undefined

  /** A copy of a snapshot of six points. */
  async function smallSnapshot(): Promise<Buffer> {
    small ??= takeSmall()
    return Buffer.from(await small)
  }

  async function takeSmall(): Promise<Buffer> {
    await using directory = await temporaryDirectory()
    const random = seededRandom(55)
    const points = Array.from({ length: 6 }, (_, index) => pointOf(random, 3, 'ü'.repeat(index)))
    await withPoints(directory.path, (collection) => collection.insert(points))
    return await snapshotOf(directory.path)
  }

  it('is refused when any byte is changed, and nothing is restored', async () => {
    const seed = 56
    const random = seededRandom(seed)
    const sound = await smallSnapshot()
    assert.equal((await readSnapshot(pieces(sound))).points.size, 6)
    await using directory = await temporaryDirectory()
    const refusal = { reason: 'invalid_argument', message: /^the snapshot cannot be used: / }
    for (let at = 0; at < sound.length; at += 1) {
      const damaged = Buffer.from(sound)
      damaged[at]! ^= 1 + Math.floor(random() * 255)
      const where = `seed ${seed}, byte ${at}`
      await assert.rejects(readSnapshot(pieces(damaged)), refusal, where)
      if (random() > 0.006) continue
      const restoring = async (): Promise<void> =>
        restoreSnapshot(await SnapshotReader.open(pieces(damaged)), join(directory.path, 'data'), logger)
      await assert.rejects(restoring(), refusal, where)
      assert.deepEqual(readdirSync(directory.path), [], where)
    }
  })

  it('is refused when it is truncated, extended, or has lost or duplicate points', async () => {
    const sound = await smallSnapshot()
    for (let length = 0; length < sound.length; length += 1) {
      await assert.rejects(
        readSnapshot(pieces(sound.subarray(0, length))),
        /cut off at byte/,
        `${length} bytes`,
      )
    }
    await assert.rejects(readSnapshot(pieces(Buffer.concat([sound, Buffer.of(0)]))), /after its end/)
    // Contents differ in length by two bytes. The second point begins where the first one ends.
    const pointBytes = 36 + 3 * 4 + 4
    const second = snapshotHeaderBytes + pointBytes
    const without = Buffer.concat([sound.subarray(0, snapshotHeaderBytes), sound.subarray(second)])
    await assert.rejects(readSnapshot(pieces(without)), /does not match its checksum/)
    const doubled = Buffer.concat([sound.subarray(0, second), sound.subarray(snapshotHeaderBytes)])
    await assert.rejects(readSnapshot(pieces(doubled)), /does not match its checksum/)
  })

  it('of another format version is refused by its number', async () => {
    const other = await smallSnapshot()
    other.writeUInt32LE(6, 8)
    other.writeUInt32LE(crc32(other.subarray(0, 48)), 48)
    await assert.rejects(readSnapshot(pieces(other)), /format version 6, this program reads 4 and 5/)
  })

  it('with impossible points is refused even if its checksums are right', async () => {
    const sound = await smallSnapshot()
    const head = snapshotHeaderBytes
    const forgeries: readonly ((bytes: Buffer) => void)[] = [
      (bytes) => bytes.writeDoubleLE(99, head + 16),
      (bytes) => bytes.writeDoubleLE(Number.NaN, head + 16),
      (bytes) => bytes.writeUInt32LE(2, head + 28),
      (bytes) => bytes.writeFloatLE(Number.NaN, head + 64),
    ]
    for (const forge of forgeries) {
      const forged = Buffer.from(sound)
      forge(forged)
      const afterHeader = crc32(forged.subarray(0, 48))
      const afterHead = crc32(forged.subarray(head, head + 60), afterHeader)
      forged.writeUInt32LE(afterHead, head + 60)
      forged.writeUInt32LE(crc32(forged.subarray(head + 64, head + 76), afterHead), head + 76)
      await assert.rejects(readSnapshot(pieces(forged)), /none that could have been stored/)
    }
  })

  it('is restored only into a new or empty directory, and never overwritten', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'copy')
    writeFileSync(file, await smallSnapshot())
    const restoring = async (place: string): Promise<void> =>
      restoreSnapshot(await SnapshotReader.open(pieces(readFileSync(file))), place, logger)
    await assert.rejects(restoring(directory.path), {
      message: `${directory.path} is not empty: a snapshot is restored into a new or an empty directory`,
    })
    await assert.rejects(restoring(file), /is not a directory/)
    const again = await run(['snapshot', 'create', file, '--data-dir', directory.path])
    assert.deepEqual([again.code, again.stderr], [2, `vicinal: ${file} already exists\n`])
    const missing = await run(['snapshot', 'create', `${file}2`, '--data-dir', join(directory.path, 'none')])
    assert.match(missing.stderr, /nothing is stored in/)
    assert.deepEqual(readdirSync(directory.path), ['copy'])
  })

  it('is written, like an export, although nobody reads what is printed about it', async () => {
    await using directory = await temporaryDirectory()
    await withPoints(directory.path, (collection) =>
      collection.insert([{ vector: Float32Array.of(1), payload: { contentType: 'Text', content: 'x' } }]),
    )
    for (const command of [['snapshot', 'create'], ['export']]) {
      const file = join(directory.path, command[0]!)
      const unread = new Command([...command, file, '--data-dir', directory.path])
      unread.child.stdout.destroy()
      const { code, stderr } = await unread.ended
      assert.deepEqual([code, stderr], [0, ''])
      assert.ok(existsSync(file), command[0])
    }
  })

  it('is restored into the directory that a link leads to', async () => {
    await using directory = await temporaryDirectory()
    const [link, target] = [join(directory.path, 'link'), join(directory.path, 'target')]
    symlinkSync('target', link)
    const restoring = async (): Promise<void> =>
      restoreSnapshot(await SnapshotReader.open(pieces(await smallSnapshot())), link, logger)
    await assert.rejects(restoring(), {
      message: `${link} is a link to target, which does not exist: create it, or remove the link`,
    })
    mkdirSync(target)
    await restoring()
    assert.ok(lstatSync(link).isSymbolicLink())
    assert.ok(existsSync(join(target, 'collections.mdb')))
    assert.deepEqual(readdirSync(directory.path), ['link', 'target'])
  })

  it('is neither written to a full disk nor restored to one, and the message says so', async (context) => {
    using disk = SmallDisk.mount(1024 * 1024)
    if (disk === undefined) return context.skip(noSmallDisk)
    await using directory = await temporaryDirectory()
    await withPoints(directory.path, (collection) =>
      collection.insert([
        { vector: Float32Array.of(1), payload: { contentType: 'Text', content: 'x'.repeat(2 ** 20) } },
      ]),
    )
    const full = (what: string): string =>
      `vicinal: the disk of ${disk.path} is full: ${what}; free some space, or name another directory\n`
    const file = join(disk.path, 'copy')
    const created = await run(['snapshot', 'create', file, '--data-dir', directory.path])
    assert.deepEqual([created.code, created.stderr], [1, full('no file was written')])
    const copy = join(directory.path, 'copy')
    assert.equal((await run(['snapshot', 'create', copy, '--data-dir', directory.path])).code, 0)
    const restored = await run(['snapshot', 'restore', copy, '--data-dir', file])
    assert.deepEqual([restored.code, restored.stderr], [1, full('nothing was restored')])
    assert.deepEqual(readdirSync(disk.path), [])
  })
})

describe('the database id', () => {
  const idOf = async (dataDir: string): Promise<string | undefined> =>
    (await readSnapshot(pieces(await snapshotOf(dataDir)))).header.databaseId
  const insertOne = (dataDir: string, content: string): Promise<unknown> =>
    withPoints(dataDir, (collection) =>
      collection.insert([{ vector: Float32Array.of(1, 2), payload: { contentType: 'Text', content } }]),
    )
  const create = async (dataDir: string, place: string): Promise<string> => {
    const { code, stdout, stderr } = await run(['snapshot', 'create', place, '--data-dir', dataDir])
    assert.equal(code, 0, stderr)
    return stdout.trim().split('\n').at(-1)!
  }

  it('distinguishes snapshots of different databases at the same sequence number, also of a restored one', async () => {
    await using directory = await temporaryDirectory()
    const backups = join(directory.path, 'backups')
    mkdirSync(backups)
    const [one, two, three] = ['one', 'two', 'three'].map((name) => join(directory.path, name))
    for (const dataDir of [one!, two!]) await insertOne(dataDir, dataDir)
    const first = await create(one!, backups)
    const second = await create(two!, backups)
    const restored = await run(['snapshot', 'restore', first, '--data-dir', three!])
    assert.equal(restored.code, 0, restored.stderr)
    // The same points at the same sequence number, but a separate history from here on.
    const third = await create(three!, backups)
    for (const dataDir of [one!, three!]) await insertOne(dataDir, `more in ${dataDir}`)
    const files = [first, second, third, await create(one!, backups), await create(three!, backups)]
    assert.equal(new Set(files).size, 5)
    assert.equal(readdirSync(backups).length, 5)
    assert.equal(basename(first), `vicinal-${await idOf(one!)}-1.snapshot`)
    for (const file of files) assert.equal((await run(['snapshot', 'verify', file])).code, 0)
  })

  it('keeps an existing identical snapshot, and never replaces another file', async () => {
    await using directory = await temporaryDirectory()
    const [dataDir, backups] = [join(directory.path, 'data'), join(directory.path, 'backups')]
    mkdirSync(backups)
    await insertOne(dataDir, 'one')
    const file = await create(dataDir, backups)
    assert.equal(await create(dataDir, backups), file)
    const other = readFileSync(file)
    other[other.length - 1]! ^= 1
    writeFileSync(file, other)
    const refused = await run(['snapshot', 'create', backups, '--data-dir', dataDir])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /vicinal-[-0-9a-f]{36}-1\.snapshot already exists with other content/)
    assert.deepEqual(readFileSync(file), other)
    assert.deepEqual(readdirSync(backups), [basename(file)])
  })
})

describe('POST /snapshots', () => {
  it('takes one at a time, and releases everything when its client disconnects', async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const ids = await fillBig(client)
    const rows = join(service.dataDir, 'collections/0/vectors.rows')
    const replace = async (from: number): Promise<number> => {
      for (const id of ids.slice(from, from + 20)) await client.delete(id)
      for (let count = 0; count < 20; count += 1) {
        await client.insert({
          vector: new Float32Array(bigDimension),
          payload: { contentType: 'Text', content: '' },
        })
      }
      return (statSync(rows).size - rowsHeaderBytes) / rowBytesOf(bigDimension)
    }

    const leaving = new AbortController()
    const first = await take(service.httpUrl, { signal: leaving.signal })
    assert.equal(first.headers.get('vicinal-sequence'), String(bigCount))
    assert.equal(await replace(0), bigCount + 20, 'slots are not reused while the snapshot is read')
    const second = await take(service.httpUrl)
    assert.deepEqual([second.status, second.headers.get('retry-after')], [429, '1'])
    assert.match(await second.text(), /another snapshot is being read, only one can be read at a time/)
    leaving.abort()
    await until(async () => {
      const response = await take(service.httpUrl)
      await response.body!.cancel()
      return response.status === 200
    }, 'another snapshot is taken')
    await until(async () => {
      const response = await take(service.httpUrl)
      if (response.status === 200) await bytesOf(response.body!)
      return response.status === 200
    }, 'the last snapshot is released too')
    assert.equal(await replace(20), bigCount + 20, 'slots are reused')
  })

  it('disconnects a client that reads nothing, and ends with the service', async () => {
    await using service = await startTestService()
    await fillBig(createHttpClient({ baseUrl: service.httpUrl }))
    // Set only now, because the large requests above may take longer.
    await service.restart({ requestTimeoutMs: 5000 })
    const stuck = await take(service.httpUrl)
    assert.equal(stuck.status, 200)
    let last: Response | undefined
    await until(async () => {
      last = await take(service.httpUrl)
      return last.status === 200
    }, 'another snapshot is taken')
    await assert.rejects(bytesOf(stuck.body!))
    await service.service.close()
    await assert.rejects(bytesOf(last!.body!))
  })

  it('is read by the command line with the HTTP key', async () => {
    await using service = await startTestService({ HTTP_API_KEY: 'http-key-for-tests', DIMENSION: '3' })
    await using directory = await temporaryDirectory()
    const keyless = await run(['snapshot', 'create', directory.path, '--http', service.httpUrl])
    assert.equal(keyless.code, 1)
    assert.match(keyless.stderr, /answered 401: missing or invalid API key/)
    assert.deepEqual(readdirSync(directory.path), [])
    const environment = { HTTP_API_KEY: 'http-key-for-tests' }
    const keyed = await run(['snapshot', 'create', directory.path, '--http', service.httpUrl], environment)
    assert.equal(keyed.code, 0, keyed.stderr)
    assert.match(readdirSync(directory.path).join(), /^vicinal-[-0-9a-f]{36}-0\.snapshot$/)
  })
})

describe('kill -9', () => {
  it('during create or restore leaves nothing that looks complete or blocks a retry', async () => {
    await using service = await startTestService()
    await using directory = await temporaryDirectory()
    await fillBig(createHttpClient({ baseUrl: service.httpUrl }))
    const file = join(directory.path, 'copy')
    const dataDir = join(directory.path, 'data')

    const creating = new Command(['snapshot', 'create', file, '--http', service.httpUrl])
    await until(() => readdirSync(directory.path).length > 0, 'creating has begun')
    creating.kill('SIGKILL')
    assert.equal((await creating.ended).code, null)
    const [left] = readdirSync(directory.path)
    assert.equal(left, `copy.partial-${creating.child.pid}`)
    await assert.rejects(
      readSnapshot(pieces(readFileSync(join(directory.path, left!)), 65_536)),
      /the snapshot cannot be used: it is cut off at byte/,
    )
    assert.equal((await run(['snapshot', 'create', file, '--http', service.httpUrl])).code, 0)

    // It kills itself at a sync before the rename. A signal from here could arrive after the rename.
    const preload = new URL('./support/kill-preload.ts?before=5', import.meta.url)
    const killed = await run(['snapshot', 'restore', file, '--data-dir', dataDir], {
      NODE_OPTIONS: `--import ${preload}`,
    })
    assert.equal(killed.code, null, killed.stderr)
    assert.ok(existsSync(`${dataDir}.restoring`), 'restoring has begun')
    assert.equal(existsSync(dataDir), false)
    const restored = await run(['snapshot', 'restore', file, '--data-dir', dataDir])
    assert.equal(restored.code, 0, restored.stderr)
    assert.equal(existsSync(`${dataDir}.restoring`), false)
    const examined = await run(['doctor', '--data-dir', dataDir])
    assert.match(examined.stdout, /^800 points: every vector and payload was read and is undamaged/)
  })
})
