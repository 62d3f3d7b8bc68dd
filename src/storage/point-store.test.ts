import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { FailingDisk } from '../../test/support/failing-disk.ts'
import { programFile } from '../../test/support/programs.ts'
import { seededRandom } from '../../test/support/random.ts'
import { noSmallDisk, SmallDisk } from '../../test/support/small-disk.ts'
import {
  asLoaded,
  contentsOf,
  dimension,
  groupOf,
  insertion,
  insertionsOf,
  type PlacedChange,
} from '../../test/support/stored-points.ts'
import { createLogger } from '../base/log.ts'
import { newId } from '../base/partitions.ts'
import { openDataStore, openStore } from './data-store.ts'
import { rowBytesOf, rowsHeaderBytes } from './key-layout.ts'
import type { Insertion, Store } from './store.ts'
import { partsOf } from './writer/group-parts.ts'

const logger = createLogger({ level: 'silent', pretty: false })
let dataDir: string

beforeEach(() => {
  dataDir = join(mkdtempSync(join(tmpdir(), 'vicinal-store-')), 'data')
})
afterEach(() => rmSync(join(dataDir, '..'), { recursive: true, force: true }))

async function withStore<Result>(
  work: (store: Store) => Promise<Result>,
  disk?: FailingDisk,
): Promise<Result> {
  const store = await openStore({ dataDir, logger, ...(disk ? { writerExecArgv: disk.execArgv } : {}) })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

describe('the store', () => {
  it('returns after reopening exactly what was committed', async () => {
    const vector = Float32Array.of(-0, 1.401298464324817e-45, 3.4028234663852886e38, 0.1, -1)
    const exact: PlacedChange<Insertion> = {
      kind: 'insert',
      slot: 0,
      id: newId(),
      sequence: 1,
      point: { vector, payload: { contentType: 'Text', content: '🦊\u0000"' } },
    }
    const others = insertionsOf(5000, 1)
    await withStore(async (store) => {
      await store.commit(groupOf([exact, ...others]))
    })
    await withStore(async (store) => {
      assert.equal(store.dimension, dimension)
      assert.equal(store.sequence, 5001)
      assert.equal(store.slotCount, 5001)
      assert.deepEqual([...(await contentsOf(store))], asLoaded([exact, ...others]))
      assert.deepEqual(store.record(0, exact.id)?.payload, exact.point.payload)
      assert.equal(store.record(0, newId()), undefined)
    })
  })

  it('removes deleted points, and reuses their slots', async () => {
    const points = insertionsOf(10)
    const again = insertion(3, 12)
    await withStore(async (store) => {
      await store.commit(groupOf(points))
      await store.commit(groupOf([{ kind: 'delete', slot: 3, id: points[3]!.id, sequence: 11 }]))
      assert.equal(store.record(3, points[3]!.id), undefined)
    })
    await withStore(async (store) => {
      assert.ok(!(await contentsOf(store)).has(3))
      await store.commit(groupOf([again]))
    })
    await withStore(async (store) => {
      assert.deepEqual((await contentsOf(store)).get(3), asLoaded([again])[0]![1])
    })
  })

  it('accepts inserts and deletes of one group in any order, also when the group has several parts', async () => {
    const old = insertionsOf(10)
    const added = insertionsOf(4000, 10)
    const gone = new Map<number, PlacedChange>()
    for (const [slot, after] of [0, 1000, 2500, 3999].entries()) {
      gone.set(after, { kind: 'delete', slot, id: old[slot]!.id, sequence: 5000 + slot })
    }
    const mixed = added.flatMap((each, index) => [each, ...(gone.has(index) ? [gone.get(index)!] : [])])
    assert.ok([...partsOf(0, groupOf(mixed))].filter(({ leftSlots }) => leftSlots !== undefined).length > 2)
    await withStore(async (store) => {
      await store.commit(groupOf(old))
      await store.commit(groupOf(mixed))
    })
    await withStore(async (store) => {
      assert.equal(store.sequence, 5003)
      assert.deepEqual([...(await contentsOf(store))], asLoaded([...old.slice(4), ...added]))
      for (const { slot, id } of old.slice(0, 4)) assert.equal(store.record(slot, id), undefined)
    })
  })

  it('keeps every acknowledged group after kill -9, and every other group completely or not at all', async () => {
    const random = seededRandom(5)
    const acknowledged = new Map<string, number>()
    const child = programFile('test/support/committing-child.ts')
    for (let round = 0; round < 3; round += 1) {
      const process_ = spawn(process.execPath, [child, dataDir, String(round)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let output = ''
      process_.stdout.on('data', (chunk) => {
        output += chunk
      })
      while (!output.includes('\n')) await delay(5)
      await delay(random() * 150)
      process_.kill('SIGKILL')
      await once(process_, 'close')
      for (const line of output.split('\n').slice(0, -1))
        acknowledged.set(line.split(' ')[0]!, Number(line.split(' ')[1]))
    }
    const found = new Map<string, number>()
    await withStore(async (store) => {
      for (const { content } of (await contentsOf(store)).values())
        found.set(content!, (found.get(content!) ?? 0) + 1)
    })
    for (const [name, size] of acknowledged)
      assert.equal(found.get(name), size, `group ${name} was acknowledged`)
    for (const [name, size] of found)
      assert.equal(size, 1 + (Number(name.split('/')[1]) % 40), `group ${name} is whole`)
  })
})

describe('a data directory', () => {
  it('is private to its owner', async () => {
    await withStore(async (store) => store.commit(groupOf(insertionsOf(1))))
    assert.equal(statSync(dataDir).mode & 0o777, 0o700)
    for (const name of ['collections/0/vectors.rows', 'collections.mdb'])
      assert.equal(statSync(join(dataDir, name)).mode & 0o777, 0o600)
  })

  it('has one server at a time; the lock ends with the process, however it ends', async () => {
    await withStore(async () => {
      await assert.rejects(openStore({ dataDir, logger }), new RegExp(`in use by process ${process.pid}`))
    })
    const child = spawn(process.execPath, [programFile('test/support/committing-child.ts'), dataDir, '0'])
    await once(child.stdout, 'data')
    await assert.rejects(openStore({ dataDir, logger }), new RegExp(`in use by process ${child.pid}`))
    child.kill('SIGKILL')
    await once(child, 'close')
    await withStore(async (store) => assert.ok(store.slotCount > 0))
  })

  it('has a writer thread that ends by itself when it is closed', { timeout: 60_000 }, async () => {
    const exits: Promise<unknown[]>[] = []
    const note = (thread: Worker): void => void exits.push(once(thread, 'exit'))
    process.on('worker', note)
    try {
      for (const name of ['one', 'two', 'three']) {
        // With options of its own, a thread is not one of those that scripts/test-threads.ts shares, whose end it feigns.
        const data = await openDataStore({ dataDir, logger, writerExecArgv: [] })
        const { number } = await data.create({ name })
        const store = await data.open(number)
        await Promise.all([
          store.commit(groupOf(insertionsOf(100))),
          data.main.commit(groupOf(insertionsOf(3, data.main.slotCount))),
        ])
        await store.close()
        await data.drop(name)
        await data.close()
      }
    } finally {
      process.off('worker', note)
    }
    // A thread that is terminated ends with 1.
    assert.deepEqual(await Promise.all(exits), [[0], [0], [0]])
  })

  it('is refused if it has another dimension; the message names both', async () => {
    await withStore(async (store) => store.commit(groupOf(insertionsOf(1))))
    await assert.rejects(
      openStore({ dataDir, logger, dimension: 7 }),
      /DIMENSION is 7, but .* holds vectors of 5 dimensions/,
    )
  })

  const damages: readonly (readonly [string, RegExp, (path: string) => void])[] = [
    [
      'a flipped bit in a row',
      /vectors\.rows cannot be used: the row of slot 2 at byte \d+/,
      (path) => flip(path, rowsHeaderBytes + 2 * rowBytesOf(dimension) + 30),
    ],
    [
      'a flipped bit in the header',
      /vectors\.rows cannot be used: its header.*doctor --repair/,
      (path) => flip(path, 13),
    ],
    [
      'a truncated row file',
      /the row of slot 9 at byte \d+ is cut off/,
      (path) => truncateSync(path, statSync(path).size - 3),
    ],
    ['a missing row file', /vectors\.rows cannot be used: it is missing/, (path) => rmSync(path)],
    [
      'another file in place of the row file',
      /it does not begin like a row file/,
      (path) => writeFileSync(path, 'x'.repeat(9000)),
    ],
  ]
  for (const [what, message, damage] of damages) {
    it(`with ${what} is refused; the message names file and position`, async () => {
      await withStore(async (store) => store.commit(groupOf(insertionsOf(10))))
      damage(join(dataDir, 'collections/0/vectors.rows'))
      await assert.rejects(withStore(contentsOf), message)
    })
  }
})

describe('a failing disk', () => {
  it('that is full refuses a whole group, and accepts the next when there is space', async () => {
    using disk = new FailingDisk()
    const first = insertionsOf(3)
    const third = insertion(3, 9)
    await withStore(async (store) => {
      await store.commit(groupOf(first))
      disk.fail({ operation: 'write', code: 'ENOSPC' })
      await assert.rejects(store.commit(groupOf([insertion(3, 5), insertion(4, 6)])), {
        reason: 'disk_full',
      })
      assert.equal(disk.left, 0)
      await store.commit(groupOf([third]))
    }, disk)
    await withStore(async (store) =>
      assert.deepEqual([...(await contentsOf(store))], asLoaded([...first, third])),
    )
  })

  it('that fills up in the middle of a large group stores none of it', async () => {
    using disk = new FailingDisk()
    const first = insertionsOf(3)
    // It has several parts on the way to the writer thread, each with its own write.
    const large = Array.from({ length: 60_000 }, (_, index) =>
      insertion(3 + index, 4 + index, 'x'.repeat(50)),
    )
    const last = insertion(3, 100_000)
    await withStore(async (store) => {
      await store.commit(groupOf(first))
      disk.fail({ operation: 'write', code: 'ENOSPC', after: 1 })
      await assert.rejects(store.commit(groupOf(large)), { reason: 'disk_full' })
      assert.equal(disk.left, 0)
      assert.equal(store.slotCount, 3)
      assert.equal(store.record(3, large[0]!.id), undefined)
      await store.commit(groupOf([last]))
    }, disk)
    await withStore(async (store) =>
      assert.deepEqual([...(await contentsOf(store))], asLoaded([...first, last])),
    )
  })

  it('that fails the first insertion does not fix the dimension', async () => {
    using disk = new FailingDisk()
    const other = insertion(0, 2, 'of seven dimensions', 7)
    await withStore(async (store) => {
      disk.fail({ operation: 'fdatasync', code: 'ENOSPC' })
      await assert.rejects(store.commit(groupOf([insertion(0, 1)])), {
        reason: 'disk_full',
      })
      assert.equal(disk.left, 0)
      assert.equal(store.dimension, undefined)
      await store.commit(groupOf([other]))
      assert.equal(store.dimension, 7)
    }, disk)
    await withStore(async (store) => {
      assert.equal(store.dimension, 7)
      assert.deepEqual([...(await contentsOf(store))], asLoaded([other]))
    })
  })

  const fatal = [
    { operation: 'write', code: 'EIO', what: 'whose write fails' },
    { operation: 'fdatasync', code: 'EIO', what: 'whose sync fails' },
    { operation: 'fdatasync', code: 'thread exit', what: 'whose writer thread ends' },
  ] as const
  for (const { what, ...fault } of fatal) {
    it(`${what} is not trusted again until a restart: no retry, and reads continue`, async () => {
      using disk = new FailingDisk()
      const first = insertionsOf(3)
      await withStore(async (store) => {
        await store.commit(groupOf(first))
        disk.fail(fault)
        const refusal = { reason: 'internal', message: /writes are stopped until the server is restarted/ }
        await assert.rejects(store.commit(groupOf([insertion(3, 4)])), refusal)
        await assert.rejects(store.commit(groupOf([insertion(3, 5)])), refusal)
        assert.equal(disk.left, 0)
        assert.deepEqual(store.record(0, first[0]!.id)?.payload, first[0]!.point.payload)
      }, disk)
      await withStore(async (store) => assert.deepEqual([...(await contentsOf(store))], asLoaded(first)))
    })
  }

  it('that is really full refuses inserts, accepts deletions, round after round, and loses nothing', async (context) => {
    using small = SmallDisk.mount(12 * 1024 * 1024)
    if (small === undefined) return context.skip(noSmallDisk)
    rmSync(join(dataDir, '..'), { recursive: true })
    dataDir = join(small.path, 'data')
    const stored = new Map<number, PlacedChange<Insertion>>()
    let sequence = 0
    const insert = async (store: Store, count: number): Promise<void> => {
      const free = Array.from({ length: 4000 }, (_, slot) => slot).filter((slot) => !stored.has(slot))
      const group = free.slice(0, count).map((slot) => {
        sequence += 1
        return insertion(slot, sequence, 'x'.repeat(5000))
      })
      await store.commit(groupOf(group))
      for (const each of group) stored.set(each.slot, each)
    }
    await withStore(async (store) => {
      for (let round = 0; round < 4; round += 1) {
        const fill = async (): Promise<void> => {
          for (;;) await insert(store, 20)
        }
        await assert.rejects(fill(), { reason: 'disk_full', message: /is full: free some space or delete/ })
        const victims = [...stored.values()].filter(({ slot }) => slot % 7 === round)
        assert.ok(victims.length > 40)
        for (const { slot, id } of victims) {
          sequence += 1
          await store.commit(groupOf([{ kind: 'delete', slot, id, sequence }]))
          stored.delete(slot)
        }
        await insert(store, 20)
      }
    })
    await withStore(async (store) => {
      const expected = [...stored.values()].sort((a, b) => a.slot - b.slot)
      assert.deepEqual([...(await contentsOf(store))], asLoaded(expected))
    })
  })

  it('that is full never fails a write of LMDB, which would then write past a buffer', async (context) => {
    using small = SmallDisk.mount(12 * 1024 * 1024)
    if (small === undefined) return context.skip(noSmallDisk)
    const child = join(import.meta.dirname, '../../test/support/filling-child.ts')
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [child, small.path])
    const counts = JSON.parse(stdout) as Readonly<Record<string, number>>
    context.diagnostic(stdout)
    assert.ok(counts.inserted! > 50 && counts.refused! > 50 && counts.deleted! > 100)
    assert.equal(counts.refusedDeletions, 0)
    assert.equal(stderr, '')
  })
})

function flip(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at]! ^= 0x10
  writeFileSync(path, bytes)
}
