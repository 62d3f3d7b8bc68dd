import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, cpSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { createLogger } from '../src/base/log.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import type { DataStore } from '../src/storage/store.ts'
import { temporaryDirectory } from './support/process.ts'
import { contentsOf, groupOf, insertionsOf, refusedRequest } from './support/stored-points.ts'
import { until } from './support/until.ts'

/**
 * A process that makes all kinds of changes to the collections of a data directory is stopped before each of its steps
 * on the disk, and the directory is copied: a process that is killed there leaves the same bytes. Each copy has the state
 * before the change under way or after it, and nothing is left behind.
 */

const oldPoints = 1200

const logger = createLogger({ level: 'silent', pretty: false })

async function withData<Result>(
  dataDir: string,
  work: (data: DataStore) => Promise<Result>,
): Promise<Result> {
  const data = await openDataStore({ dataDir, logger })
  try {
    return await work(data)
  } finally {
    await data.close()
  }
}

interface Found {
  /** The number of points of each collection, the aliases, and how many refusals are stored for the key. */
  readonly counts: {
    readonly points: Readonly<Record<string, number>>
    readonly aliases: object
    readonly refused: number
  }
  /** All that is stored. */
  readonly whole: object
}

/** Opens what a killed process left, and waits until dropped collections have left no directories. */
async function open(dataDir: string): Promise<Found> {
  return await withData(dataDir, async (data) => {
    const aliases = Object.fromEntries([...data.aliases].sort())
    const points: Record<string, number> = {}
    const whole: object[] = [aliases]
    let refusals = 0
    for (const { name, number } of [{ name: 'default', number: 0 }, ...data.collections.values()]) {
      const store = number === 0 ? data.main : await data.open(number)
      const stored = await contentsOf(store)
      points[name] = stored.size
      const records = [...stored].map(([slot, point]) => [slot, point, store.record(slot, point.id)])
      const refused = store.keyedRequest(refusedRequest.keyHash)?.refused
      refusals += refused?.length ?? 0
      const { sequence, slotCount, keyedRequestCount } = store
      whole.push({ name, records, refused, sequence, slotCount, keyedRequestCount })
    }
    const directories = Object.keys(points).map((name) => numbers[name]!)
    const left = (): string[] => readdirSync(join(dataDir, 'collections')).sort()
    await until(
      () => isDeepStrictEqual(left(), directories.sort()),
      () => `${left()}, not ${directories}`,
    )
    assert.deepEqual(
      readdirSync(dataDir).filter((name) => name.includes('.new')),
      [],
    )
    return { counts: { points, aliases, refused: refusals }, whole }
  })
}

/** The directories of the collections. */
const numbers: Readonly<Record<string, string>> = { default: '0', first: '1', empty: '2', old: '3', new: '4' }

/** What a killed process leaves behind. */
interface Remains {
  readonly dataDir: string
  /** The step before which it was killed; undefined if it ended by itself. */
  readonly step: number | undefined
  /** How many changes it had been told are done. */
  readonly done: number
  /** Whether it leaves the same bytes as before the step before, so that there is nothing to check. */
  readonly isSame: boolean
}

/**
 * Runs changing-child.ts and yields what it would leave if it were killed before each of its disk steps, and at last what
 * it leaves. Each copy is removed before the next.
 */
async function* killedBeforeEachStep(dataDir: string): AsyncGenerator<Remains, void> {
  const directory = dirname(dataDir)
  const [copy, countPath, donePath] = ['copy', 'count', 'done'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ]
  const preload = new URL('./support/disk-steps-preload.ts', import.meta.url)
  preload.search = new URLSearchParams({ before: '1', count: countPath, signal: 'SIGSTOP' }).toString()
  const script = join(import.meta.dirname, 'support/changing-child.ts')
  const args = [dataDir, countPath, donePath, `${oldPoints}`, ...changes.map(({ what }) => what)]
  const child = spawn(process.execPath, ['--import', preload.href, script, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const ended = once(child, 'close')
  try {
    let last = ''
    for (let step = 1; await isStopped(child); step += 1) {
      const done = statSync(donePath).size
      const digest = `${done} ${digestOf(dataDir)}`
      const isSame = digest === last
      last = digest
      if (!isSame) cpSync(dataDir, copy, { recursive: true })
      yield { dataDir: copy, step, done, isSame }
      rmSync(copy, { recursive: true, force: true })
      appendFileSync(`${countPath}-resumed`, '.')
      child.kill('SIGCONT')
    }
    assert.deepEqual(await ended, [0, null])
    yield { dataDir, step: undefined, done: changes.length, isSame: false }
  } finally {
    child.kill('SIGKILL')
    await ended
  }
}

/** Of the names and bytes of everything in a directory. */
function digestOf(directory: string): string {
  const hash = createHash('sha256')
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    hash.update(`${path}\0`)
    // The bytes of the reserve have no meaning.
    if (entry.isFile()) hash.update(entry.name === 'reserve' ? `${statSync(path).size}` : readFileSync(path))
  }
  return hash.digest('hex')
}

/** Waits until all threads of a process are stopped. Returns false if it ends. */
async function isStopped(child: ChildProcess): Promise<boolean> {
  const threads = `/proc/${child.pid}/task`
  for (; child.exitCode === null && child.signalCode === null; await delay(1)) {
    try {
      const states = readdirSync(threads).map((thread) => {
        const status = readFileSync(join(threads, thread, 'stat'), 'utf8')
        // The name of the program, before the state, may contain spaces.
        return status.slice(status.lastIndexOf(')') + 2)[0]
      })
      if (states.every((state) => state === 'T')) return true
    } catch (error) {
      // The process or one of its threads has just ended.
      if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code!)) throw error
    }
  }
  return false
}

type Counts = Found['counts']

const plain: Counts = { points: { default: 2 }, aliases: {}, refused: 0 }
const aliases = { a: 'empty', c: 'default', d: 'old' }

interface Change {
  readonly what: string
  /** Given what was stored before. */
  readonly after: (before: Counts) => Counts
  /** What may be stored of a change of several parts, if not all or nothing. */
  readonly parts?: (before: Counts) => readonly Counts[]
  /** The fewest steps to expect. With fewer, the count misses some. */
  readonly stepsMin: number
}

function withPoints(before: Counts, points: Counts['points']): Counts {
  return { ...before, points: { ...before.points, ...points } }
}

/** In the order in which they are made. */
const changes: readonly Change[] = [
  { what: 'first create', after: (before) => withPoints(before, { first: 0 }), stepsMin: 7 },
  // Made in one go: nothing is killed there.
  {
    what: 'fill',
    after: (before) => ({
      ...withPoints(before, { empty: 0, old: oldPoints }),
      aliases: { a: 'old', b: 'old', d: 'old' },
    }),
    stepsMin: 1,
  },
  { what: 'create', after: (before) => withPoints(before, { new: 0 }), stepsMin: 7 },
  { what: 'first insert', after: (before) => withPoints(before, { empty: 3 }), stepsMin: 7 },
  {
    what: 'two inserts',
    after: (before) => withPoints(before, { empty: 6, old: oldPoints + 3 }),
    parts: (before) => [withPoints(before, { empty: 6 }), withPoints(before, { old: oldPoints + 3 })],
    stepsMin: 6,
  },
  // 100 of the points are removed and 2 are inserted.
  {
    what: 'varied changes',
    after: (before) => ({ ...withPoints(before, { old: oldPoints + 3 - 100 + 2 }), refused: 2 }),
    stepsMin: 6,
  },
  // With the same key, after whose refusals there are those of this request.
  { what: 'refusals', after: (before) => ({ ...before, refused: 1 }), stepsMin: 2 },
  { what: 'aliases', after: (before) => ({ ...before, aliases }), stepsMin: 1 },
  // Removed in pieces, of which the threads make 14 to 18 steps.
  {
    what: 'drop',
    after: ({ points: { old: _, ...points } }) => ({
      points,
      aliases: { a: 'empty', c: 'default' },
      refused: 0,
    }),
    stepsMin: 10,
  },
]

describe('a process that is killed before any step', {
  skip: process.platform !== 'linux' && 'it reads /proc',
}, () => {
  it('leaves each change complete or not begun, and nothing else', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    await withData(dataDir, (data) => data.main.commit(groupOf(insertionsOf(2))))
    let before = await open(dataDir)
    assert.deepEqual(before.counts, plain)
    let done = 0
    /** What was found of the change under way: once it has been there after a kill, it must be there. */
    let changed: Found | undefined
    const steps = changes.map(() => 0)
    for await (const remains of killedBeforeEachStep(dataDir)) {
      if (remains.done < changes.length) steps[remains.done]! += 1
      if (remains.isSame) continue
      const found = await open(remains.dataDir)
      const where = `killed before step ${remains.step}, after ${remains.done} changes`
      for (; done < remains.done; done += 1) {
        // What was acknowledged must be there, and is what was found before it was.
        assert.deepEqual(found.counts, changes[done]!.after(before.counts), where)
        assert.notDeepEqual(found.whole, before.whole, where)
        assert.deepEqual(found.whole, changed?.whole ?? found.whole, where)
        before = found
        changed = undefined
      }
      if (isDeepStrictEqual(found.whole, before.whole)) {
        assert.equal(changed, undefined, where)
        continue
      }
      const { what, after, parts } = changes[done] ?? assert.fail(where)
      if (parts?.(before.counts).some((part) => isDeepStrictEqual(part, found.counts))) continue
      assert.deepEqual(found.counts, after(before.counts), `${what}, ${where}`)
      changed ??= found
      assert.deepEqual(found.whole, changed.whole, `${what}, ${where}`)
    }
    assert.equal(done, changes.length)
    for (const [index, { what, stepsMin }] of changes.entries()) {
      assert.ok(steps[index]! >= stepsMin, `${steps[index]} steps were counted in ${what}`)
    }
  })
})
