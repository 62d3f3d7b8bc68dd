import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  closeSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { DateTime } from '../src/base/attributes.ts'
import { idToBytes } from '../src/base/ids.ts'
import { createLogger } from '../src/base/log.ts'
import { distanceMetrics, type NewPoint } from '../src/base/point.ts'
import type { Collection } from '../src/collections/collection.ts'
import { readConfig } from '../src/config.ts'
import { openStore } from '../src/storage/data-store.ts'
import { keyOfRequest, rowBytesOf, rowsHeaderBytes } from '../src/storage/key-layout.ts'
import type { NewRecord } from '../src/storage/payload-record.ts'
import { clusteredVectors } from './support/clusters.ts'
import { withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { openMainTables } from './support/main-tables.ts'
import { encodeRecord } from './support/payload-records.ts'
import { type Ended, run, temporaryDirectory } from './support/process.ts'
import { vicinal } from './support/programs.ts'
import { seededRandom } from './support/random.ts'
import { groupOf, insertion } from './support/stored-points.ts'

/** `vicinal doctor --repair` on real files with flipped bits. */

const dimension = 16
const count = 2000
const logger = createLogger({ level: 'silent', pretty: false })

function withPoints<Result>(
  dataDir: string,
  work: (collection: Collection) => Promise<Result>,
): Promise<Result> {
  const config = readConfig({ THREADS: '1' })
  // Builds a graph however small the collection is, and writes it soon.
  return withCollection(dataDir, { ...config, graphBytesMin: 0, quietMs: 20 }, work)
}

function flip(path: string, at: number): void {
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, at)
  byte[0]! ^= 4
  writeSync(file, byte, 0, 1, at)
  closeSync(file)
}

/** Slots are assigned in order, so the nth point is in slot n. */
const flipRow = (dataDir: string, slot: number, byte: number): void =>
  flip(join(dataDir, 'collections/0/vectors.rows'), rowsHeaderBytes + slot * rowBytesOf(dimension) + byte)

/** Flips a bit in every copy of the content: LMDB leaves old copies of pages behind, and the newest must be hit. */
function flipContent(dataDir: string, content: string): void {
  const path = join(dataDir, 'collections.mdb')
  const bytes = readFileSync(path)
  for (let at = bytes.indexOf(content); at !== -1; at = bytes.indexOf(content, at + 1)) flip(path, at + 2)
}

const contentOf = (slot: number): string => `content of ${String(slot).padStart(6, '0')}.`

const doctor = (dataDir: string, ...more: readonly string[]): Promise<Ended> =>
  run(['doctor', '--data-dir', dataDir, ...more])

interface Line {
  readonly id?: string
  readonly slot: number
  readonly fault: string
  readonly vector?: readonly number[]
  readonly content?: string
  readonly attributes?: object
  readonly expires_at?: string
  readonly version?: number
  readonly order?: number
  readonly damaged_row?: string
  readonly damaged_payload?: string
}

/** The points that repairs of a directory have set aside, by file. */
function setAside(dataDir: string): Line[][] {
  const directory = join(dataDir, 'set-aside')
  if (!existsSync(directory)) return []
  return readdirSync(directory)
    .filter((name) => name !== 'partial')
    .map((name) => {
      const lines = readFileSync(join(directory, name), 'utf8').trimEnd().split('\n')
      return lines.map((line) => JSON.parse(line) as Line)
    })
}

describe('a repair', () => {
  const points: readonly NewPoint[] = clusteredVectors(seededRandom(91), count, dimension).map(
    (vector, slot) => ({ vector, payload: { contentType: 'Text', content: contentOf(slot) } }),
  )
  let ids: readonly string[]
  let sound: string
  let directory: AsyncDisposable & { readonly path: string }
  let copies = 0

  before(async () => {
    directory = await temporaryDirectory()
    sound = join(directory.path, 'sound')
    ids = await withPoints(sound, async (collection) => {
      const stored = await insertIds(collection, points)
      while (collection.stats.isSettling) await new Promise((resolve) => setTimeout(resolve, 10))
      return stored
    })
    assert.ok(existsSync(join(sound, 'collections/0/index/graph-0-0.bin')))
  })
  after(() => directory[Symbol.asyncDispose]())

  function copy(): string {
    copies += 1
    const path = join(directory.path, `copy-${copies}`)
    cpSync(sound, path, { recursive: true })
    return path
  }

  /** Asserts that all points except `gone` are served unchanged, and that scans and graph searches find only them. */
  async function assertServesAllBut(dataDir: string, gone: ReadonlySet<number>): Promise<void> {
    await withPoints(dataDir, async (collection) => {
      assert.equal(collection.stats.points, count - gone.size)
      for (const [slot, id] of ids.entries()) {
        const point = await collection.get(id)
        if (gone.has(slot)) assert.equal(point, undefined)
        else assert.partialDeepStrictEqual(point, { id, ...points[slot]! })
      }
      const left = new Set(ids.filter((_, slot) => !gone.has(slot)))
      for (const slot of [...[...gone].slice(0, 8), 0, 1]) {
        const { vector } = points[slot]!
        for (const metric of distanceMetrics) {
          const [all] = (await collection.search([{ vector, metric, limit: count, ef: 1 }])).ids.strings()
          assert.deepEqual(new Set(all), left, metric)
        }
        const near = { vector, metric: 'Euclidean' as const, limit: 10, ef: 200 }
        const [found] = (await collection.search([near])).ids.strings()
        assert.deepEqual(found, nearest(vector, gone))
      }
    })
  }

  function nearest(vector: Float32Array, gone: ReadonlySet<number>): string[] {
    const distance = (slot: number): number =>
      vector.reduce((sum, component, at) => sum + (component - points[slot]!.vector[at]!) ** 2, 0)
    const slots = ids.map((_, slot) => slot).filter((slot) => !gone.has(slot))
    return slots
      .toSorted((a, b) => distance(a) - distance(b))
      .slice(0, 10)
      .map((slot) => ids[slot]!)
  }

  it('sets all damaged rows and payloads aside, and the rest is served unchanged', async () => {
    const dataDir = copy()
    flipRow(dataDir, 3, 30)
    flipRow(dataDir, 4, 5)
    flipRow(dataDir, 1700, rowBytesOf(dimension) - 1)
    flipRow(dataDir, 900, 17)
    flipContent(dataDir, contentOf(700))
    flipContent(dataDir, contentOf(900))
    const gone = new Set([3, 4, 700, 900, 1700])

    const refused = await run(['serve'], { DATA_DIR: dataDir, GRPC_PORT: '0', HTTP_PORT: '0' })
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /the row of slot \d+ .*`vicinal doctor` .*`vicinal doctor --repair`/)
    const report = await doctor(dataDir)
    assert.equal(report.code, 1)
    assert.equal(report.stdout.match(/^DAMAGED: /gm)!.length, 5)
    assert.match(report.stdout, /^1995 undamaged points/)
    for (const slot of gone) {
      const line = new RegExp(
        `^DAMAGED: point ${ids[slot]} in slot ${slot}: its (row|payload) in \\S+ does not match`,
        'm',
      )
      if (slot !== 900) assert.match(report.stdout, line)
    }
    // If both row and payload are damaged, the point's id is still known.
    assert.match(report.stdout, new RegExp(`point ${ids[900]} in slot 900: its row .*, and its payload`))
    assert.match(report.stderr, /5 faults were found.*--repair/)
    assert.deepEqual(setAside(dataDir), [], 'nothing is changed without --repair')

    const repaired = await doctor(dataDir, '--repair')
    assert.equal(repaired.code, 0, repaired.stderr)
    assert.equal(repaired.stdout.match(/^DAMAGED: /gm)!.length, 5)
    assert.match(repaired.stdout, /their remains are in \S+set-aside\/points-\S+\.jsonl/)
    const [kept, ...more] = setAside(dataDir)
    assert.deepEqual(more, [])
    assert.deepEqual(new Set(kept!.map(({ slot }) => slot)), gone)
    const of = (slot: number): Line => kept!.find((line) => line.slot === slot)!
    assert.equal(of(3).content, contentOf(3))
    assert.equal(Buffer.from(of(3).damaged_row!, 'base64').length, rowBytesOf(dimension))
    assert.deepEqual(Float32Array.from(of(700).vector!), points[700]!.vector)
    assert.match(Buffer.from(of(700).damaged_payload!, 'base64').toString(), /cojtent of 000700\./)
    assert.equal(of(1700).id, ids[1700])

    const whole = await doctor(dataDir)
    assert.deepEqual([whole.code, whole.stderr], [0, ''])
    assert.match(whole.stdout, /^1995 points: every vector and payload was read and is undamaged/)
    await assertServesAllBut(dataDir, gone)
    // Freed slots are reused, and the graph on disk does not confuse the new points with the old.
    await withPoints(dataDir, async (collection) => {
      const [id] = await insertIds(collection, [points[0]!])
      const found = await collection.search([{ ...points[0]!, metric: 'Euclidean', limit: 2, ef: 100 }])
      assert.deepEqual(found.ids.strings(), [[ids[0], id]])
    })
  })

  it('keeps the remaining rows of a truncated file, and fixes the header', async () => {
    const dataDir = copy()
    const path = join(dataDir, 'collections/0/vectors.rows')
    truncateSync(path, rowsHeaderBytes + (count - 2) * rowBytesOf(dimension) + 7)
    flip(path, 9)
    assert.match(
      (await doctor(dataDir)).stdout,
      /header of vectors\.rows is damaged[\s\S]*its row in vectors\.rows is cut off/,
    )
    assert.equal((await doctor(dataDir, '--repair')).code, 0)
    assert.deepEqual(
      setAside(dataDir)[0]!.map(({ id, content }) => [id, content]),
      [count - 2, count - 1].map((slot) => [ids[slot], contentOf(slot)]),
    )
    await assertServesAllBut(dataDir, new Set([count - 2, count - 1]))
  })

  it('rebuilds the bits of live slots from payloads, and replaces a damaged database id', async () => {
    const dataDir = copy()
    const tables = await openMainTables(dataDir)
    tables.root.transactionSync(() => {
      for (const [table, key] of [
        [tables.live, 0],
        [tables.meta, 1],
      ] as const) {
        const value = table.getBinary(key)!
        value[7]! ^= 1
        table.putSync(key, value)
      }
    })
    await tables.root.close()
    const report = await doctor(dataDir)
    assert.equal(report.stdout.match(/^DAMAGED: /gm)!.length, 2, report.stdout)
    const repaired = await doctor(dataDir, '--repair')
    assert.match(repaired.stdout, /the next start serves the 2000 undamaged points/)
    assert.deepEqual(setAside(dataDir), [])
    await assertServesAllBut(dataDir, new Set())
  })

  it('deletes idempotency keys if one is damaged, and says so', async () => {
    const dataDir = copy()
    const identity = { keyHash: Buffer.alloc(16, 1), bodyHash: Buffer.alloc(16, 2) }
    const more = [{ vector: new Float32Array(dimension).fill(9), payload: points[0]!.payload }]
    const [first] = await withPoints(dataDir, (collection) => insertIds(collection, more, { identity }))
    const tables = await openMainTables(dataDir)
    const value = tables.meta.getBinary(keyOfRequest(0))!
    value[20]! ^= 1
    tables.root.transactionSync(() => tables.meta.putSync(keyOfRequest(0), value))
    await tables.root.close()
    const report = await doctor(dataDir)
    assert.match(report.stdout, /^DAMAGED: the record of keyed requests under 2 does not match its checksum/m)
    await doctor(dataDir, '--repair')
    assert.match(
      (await doctor(dataDir)).stdout,
      /^2001 points: every vector and payload was read and is undamaged/,
    )
    const again = await withPoints(dataDir, async (collection) => [
      ...(await insertIds(collection, more, { identity })),
      ...(await insertIds(collection, more, { identity })),
    ])
    assert.notEqual(again[0], first, 'the key was deleted')
    assert.equal(again[1], again[0], 'the key is stored again')
  })

  it('lists up to 1000 faults and counts all', async () => {
    const dataDir = copy()
    writeFileSync(
      join(dataDir, 'collections/0/vectors.rows'),
      readFileSync(join(dataDir, 'collections/0/vectors.rows')).fill(1, 9000),
    )
    const report = await doctor(dataDir, '--json')
    const { damage, damageCount } = JSON.parse(report.stdout) as { damage: string[]; damageCount: number }
    assert.equal(damage.length, 1000)
    assert.ok(damageCount > 1900)
    const { stdout } = await doctor(dataDir, '--repair')
    assert.match(stdout, new RegExp(`DAMAGED: ${damageCount - 1000} more, ${damageCount} in all`))
    assert.equal(setAside(dataDir)[0]!.length, damageCount)
    await assertServesAllBut(dataDir, new Set(setAside(dataDir)[0]!.map(({ slot }) => slot)))
  })

  it('can be killed at any step and repeated', async () => {
    const preload = new URL('./support/kill-preload.ts', import.meta.url)
    const dataDir = copy()
    flipRow(dataDir, 10, 30)
    flipContent(dataDir, contentOf(20))
    let kills = 0
    for (;;) {
      const args = ['--import', `${preload}?before=${kills + 1}`, vicinal, 'doctor', '--data-dir', dataDir]
      const ended = await promisify(execFile)(process.execPath, [...args, '--repair']).catch(
        (error: { signal: string; stderr: string }) => error,
      )
      if (!('signal' in ended)) break
      assert.equal(ended.signal, 'SIGKILL', ended.stderr)
      kills += 1
      assert.ok(kills < 20)
      assert.match((await doctor(dataDir)).stdout, /^1998 undamaged points/)
    }
    assert.ok(kills >= 3, 'file, directory and header must be synced')
    for (const file of setAside(dataDir))
      assert.deepEqual(
        file.map(({ slot }) => slot),
        [10, 20],
      )
    assert.deepEqual(
      readdirSync(join(dataDir, 'set-aside')).filter((name) => name === 'partial'),
      [],
    )
    await assertServesAllBut(dataDir, new Set([10, 20]))
  })

  it('does nothing to sound data, and refuses to run while the directory is in use', async () => {
    const dataDir = copy()
    const report = await doctor(dataDir, '--repair')
    assert.match(report.stdout, /^2000 points: .* there is nothing to repair\n$/)
    flipRow(dataDir, 1, 30)
    const store = await openStore({ dataDir, logger })
    const refused = await doctor(dataDir, '--repair')
    await store.close()
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /is in use by process/)
    assert.deepEqual(setAside(dataDir), [])
  })

  it('reports what it cannot repair, and changes nothing', async () => {
    const breakers: readonly (readonly [(dataDir: string) => void, RegExp])[] = [
      [
        (dataDir) => rmSync(join(dataDir, 'collections/0/vectors.rows')),
        /vectors\.rows cannot be used: it is missing/,
      ],
      [
        (dataDir) => truncateSync(join(dataDir, 'collections.mdb'), 20_000),
        /collections\.mdb cannot be used: it is cut off/,
      ],
    ]
    for (const [damage, fault] of breakers) {
      const dataDir = copy()
      damage(dataDir)
      for (const flags of [[], ['--repair']]) {
        const report = await doctor(dataDir, ...flags)
        assert.equal(report.code, 1)
        assert.match(report.stderr, fault)
        assert.match(report.stderr, /No repair can fix this: restore the newest snapshot/)
      }
      assert.deepEqual(setAside(dataDir), [])
    }
  })
})

describe('a repair of points with attributes and expiry', () => {
  it('detects damage in every part of their records, and sets the rest aside with attributes and expiry', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const attributes = new Map<string, string | DateTime>([
      ['shop', 'x'],
      ['at', new DateTime(0)],
    ])
    const stored = Array.from({ length: 8 }, (_, slot) => {
      const point = insertion(slot, slot + 1)
      const payload = { ...point.point.payload, attributes, expiresAtUs: 1_900_000_000_000_000 }
      return { ...point, point: { ...point.point, payload } }
    })
    const store = await openStore({ dataDir, logger })
    await store.commit(groupOf(stored))
    await store.close()
    const forged = (slot: number, extras: Partial<Omit<NewRecord, 'id'>>): Buffer => {
      const sound = { version: slot + 1, order: slot + 1, expiresAtUs: Number.NaN, attributes: '' }
      const id = idToBytes(stored[slot]!.id)
      return encodeRecord({ id, contentType: 'Image', content: 'x', ...sound, ...extras })
    }
    const tables = await openMainTables(dataDir)
    const flipped = tables.payloads.getBinary(1)!
    flipped[60]! ^= 1
    tables.root.transactionSync(() => {
      tables.payloads.putSync(1, flipped)
      tables.payloads.putSync(2, forged(2, { attributes: '{"a":' }))
      tables.payloads.putSync(3, forged(3, { version: 9 }))
      tables.payloads.putSync(4, forged(4, { version: 4, order: 4 }))
      tables.payloads.putSync(5, forged(5, { version: 7, order: 7 }))
    })
    await tables.root.close()
    flip(join(dataDir, 'collections/0/vectors.rows'), rowsHeaderBytes + 6 * rowBytesOf(5) + 30)

    const report = await doctor(dataDir)
    const faults: readonly (readonly [number, RegExp])[] = [
      [1, /its payload in collections\.mdb does not match its checksum$/],
      [2, /its payload in collections\.mdb has attributes that cannot be read$/],
      [3, /its payload in collections\.mdb is newer than the last change$/],
      [4, /its payload in collections\.mdb does not match its row in vectors\.rows$/],
      [5, /its payload in collections\.mdb does not match its row in vectors\.rows$/],
      [6, /its row in vectors\.rows does not match its checksum$/],
    ]
    const lines = report.stdout.split('\n').filter((line) => line.startsWith('DAMAGED: '))
    assert.equal(lines.length, faults.length, report.stdout)
    for (const [index, [slot, fault]] of faults.entries()) {
      assert.match(lines[index]!, new RegExp(`point ${stored[slot]!.id} in slot ${slot}: `))
      assert.match(lines[index]!, fault)
    }
    const repaired = await doctor(dataDir, '--repair')
    assert.equal(repaired.code, 0, repaired.stderr)
    const [kept] = setAside(dataDir)
    assert.deepEqual(
      kept!.map(({ slot }) => slot),
      [1, 2, 3, 4, 5, 6],
    )
    const row = kept!.find(({ slot }) => slot === 6)!
    assert.equal(row.content, stored[6]!.point.payload.content)
    assert.deepEqual(row.attributes, { at: { $date: '1970-01-01T00:00:00Z' }, shop: 'x' })
    assert.deepEqual([row.expires_at, row.version, row.order], ['2030-03-17T17:46:40Z', 7, 7])
    assert.ok(kept!.every(({ slot, damaged_payload: bytes }) => (bytes !== undefined) === slot < 3))

    assert.match(
      (await doctor(dataDir)).stdout,
      /^2 points: every vector and payload was read and is undamaged/,
    )
    const whole = await openStore({ dataDir, logger })
    for (const slot of [0, 7]) {
      assert.deepEqual(whole.record(slot, stored[slot]!.id)?.payload, stored[slot]!.point.payload)
    }
    assert.ok(whole.sequence > 9)
    await whole.close()
  })
})
