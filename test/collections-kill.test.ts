import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { createLogger } from '../src/base/log.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import type { DataStore } from '../src/storage/store.ts'
import { temporaryDirectory } from './support/process.ts'
import { contentsOf, groupOf, insertionsOf, refusedRequest } from './support/stored-points.ts'

/**
 * A process that changes the collections of a data directory is stopped before each of its steps on the disk, and the
 * directory is copied: a process that is killed there leaves the same bytes. Each copy has the old state or the complete
 * change, and nothing is left behind.
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

/** Everything that is stored: the number of points of each collection, and the aliases. */
async function contents(dataDir: string): Promise<object> {
  return await withData(dataDir, async (data) => {
    const points: [string, number][] = [['default', (await contentsOf(data.main)).size]]
    for (const { name, number } of data.collections.values()) {
      points.push([name, (await contentsOf(await data.open(number))).size])
    }
    return { points: Object.fromEntries(points), aliases: Object.fromEntries([...data.aliases].sort()) }
  })
}

/** The points of the changed collection, without the ids of new ones, and the outcome that is stored for the key. */
async function everything(dataDir: string): Promise<object> {
  return await withData(dataDir, async (data) => {
    const store = await data.open(data.collections.get('old')!.number)
    const points = [...(await contentsOf(store))].map(([slot, { id, ...point }]) => {
      return [slot, slot < oldPoints ? id : '', point, store.record(slot, id)]
    })
    const keyed = store.keyedRequest(refusedRequest.keyHash)
    const { sequence, slotCount, keyedRequestCount } = store
    return { points, refused: keyed?.refused.length, sequence, slotCount, keyedRequestCount }
  })
}

/** What a killed process leaves behind. */
interface Remains {
  readonly dataDir: string
  /** The step before which it was killed; undefined if it ended by itself. */
  readonly step: number | undefined
  /** Whether it had been told that the change is done. */
  readonly isDone: boolean
  /** Whether it leaves the same bytes as before the step before, so that there is nothing to check. */
  readonly isSame: boolean
}

/**
 * Runs changing-child.ts on a copy of the template and yields what it would leave if it were killed before each of its
 * disk steps, and at last what it leaves. Each is removed before the next.
 */
async function* killedBeforeEachStep(template: string, what: string): AsyncGenerator<Remains, void> {
  const directory = dirname(template)
  const [dataDir, copy, countPath, donePath] = ['data', 'copy', 'count', 'done'].map((name) =>
    join(directory, name),
  ) as [string, string, string, string]
  cpSync(template, dataDir, { recursive: true })
  const preload = new URL('./support/disk-steps-preload.ts', import.meta.url)
  preload.search = new URLSearchParams({ before: '1', count: countPath, signal: 'SIGSTOP' }).toString()
  const script = join(import.meta.dirname, 'support/changing-child.ts')
  const child = spawn(
    process.execPath,
    ['--import', preload.href, script, dataDir, what, countPath, donePath],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  )
  const ended = once(child, 'close')
  try {
    let last = ''
    for (let step = 1; await isStopped(child); step += 1) {
      const isDone = existsSync(donePath)
      const digest = `${isDone} ${digestOf(dataDir)}`
      const isSame = digest === last
      last = digest
      if (!isSame) cpSync(dataDir, copy, { recursive: true })
      yield { dataDir: copy, step, isDone, isSame }
      rmSync(copy, { recursive: true, force: true })
      child.kill('SIGCONT')
    }
    assert.deepEqual(await ended, [0, null])
    yield { dataDir, step: undefined, isDone: true, isSame: false }
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

async function makeOld(dataDir: string): Promise<void> {
  await withData(dataDir, async (data) => {
    await data.main.commit(groupOf(insertionsOf(2)))
    await data.create({ name: 'empty' })
    const { number } = await data.create({ name: 'old' })
    const store = await data.open(number)
    await store.commit(groupOf(insertionsOf(oldPoints)))
    mkdirSync(data.indexDirectory(number))
    writeFileSync(join(data.indexDirectory(number), 'graph-0-0.bin'), 'x')
    await data.setAliases(
      new Map([
        ['a', 'old'],
        ['b', 'old'],
      ]),
      [],
    )
  })
}

async function makePlain(dataDir: string): Promise<void> {
  await withData(dataDir, (data) => data.main.commit(groupOf(insertionsOf(2))))
}

/** Opens and closes until dropped collections leave no directories. Returns the directories that remain. */
async function directoriesLeft(dataDir: string, numbers: readonly string[]): Promise<readonly string[]> {
  const directory = join(dataDir, 'collections')
  const list = (): string[] => (existsSync(directory) ? readdirSync(directory) : [])
  for (let attempt = 0; attempt < 20 && list().length > numbers.length; attempt += 1) {
    await withData(dataDir, async () => {})
  }
  return list().sort()
}

const plain = { points: { default: 2 }, aliases: {} }
const old = { points: { default: 2, empty: 0, old: oldPoints }, aliases: { a: 'old', b: 'old' } }

const cases: readonly {
  readonly what: string
  readonly make: (dataDir: string) => Promise<void>
  readonly before: object
  readonly after: object
  readonly directories: readonly (readonly string[])[]
  /** The fewest steps to expect. With fewer, the count misses some. */
  readonly stepsMin: number
}[] = [
  {
    what: 'create',
    make: makePlain,
    before: plain,
    after: { points: { default: 2, new: 0 }, aliases: {} },
    directories: [['0'], ['0', '1']],
    stepsMin: 8,
  },
  {
    what: 'first insert',
    make: makeOld,
    before: old,
    after: { ...old, points: { default: 2, empty: 3, old: oldPoints } },
    directories: [['0', '1', '2']],
    stepsMin: 8,
  },
  {
    what: 'aliases',
    make: makeOld,
    before: old,
    after: { ...old, aliases: { a: 'empty', c: 'default' } },
    directories: [['0', '1', '2']],
    stepsMin: 1,
  },
  {
    what: 'drop',
    make: makeOld,
    before: old,
    after: { points: { default: 2, empty: 0 }, aliases: {} },
    directories: [
      ['0', '1', '2'],
      ['0', '1'],
    ],
    stepsMin: 6,
  },
]

describe('a process that is killed before any step', {
  skip: process.platform !== 'linux' && 'it reads /proc',
}, () => {
  for (const { what, make, before, after, directories, stepsMin } of cases) {
    it(`of ${what} leaves the old state or the complete change, and nothing else`, async () => {
      await using directory = await temporaryDirectory()
      const template = join(directory.path, 'template')
      await make(template)
      let hasChanged = false
      let steps = 0
      for await (const { dataDir, step, isDone, isSame } of killedBeforeEachStep(template, what)) {
        steps = step ?? steps
        if (isSame) continue
        const found = await contents(dataDir)
        const [expected] = [before, after].filter((each) => isDeepStrictEqual(each, found))
        assert.deepEqual(found, expected ?? before, `killed before step ${step}`)
        const isChanged = expected === after
        // A change that was acknowledged, or was there after a kill at an earlier step, must be there.
        assert.ok(isChanged || (!isDone && !hasChanged), `step ${step}`)
        hasChanged ||= isChanged
        const left = await directoriesLeft(dataDir, directories.at(isChanged ? -1 : 0)!)
        assert.deepEqual(left, directories.at(isChanged ? -1 : 0))
        assert.ok(!readdirSync(dataDir).some((name) => name.includes('.new')))
      }
      assert.ok(steps >= stepsMin, `${steps} steps were counted`)
      assert.ok(hasChanged)
    })
  }

  for (const what of ['changes', 'refusals']) {
    it(`of a commit of ${what} leaves points and keys unchanged or completely changed`, async () => {
      await using directory = await temporaryDirectory()
      const template = join(directory.path, 'template')
      await makeOld(template)
      const before = await everything(template)
      const changed: object[] = []
      for await (const { dataDir, step, isDone, isSame } of killedBeforeEachStep(template, what)) {
        if (isSame) continue
        const found = await everything(dataDir)
        if (isDeepStrictEqual(found, before)) assert.ok(!isDone && changed.length === 0, `step ${step}`)
        else changed.push(found)
        // The last one is complete.
        if (step === undefined) for (const each of changed) assert.deepEqual(each, found)
      }
      assert.ok(changed.length > 0)
    })
  }

  it('of inserts into two collections leaves each insert complete or absent', async () => {
    await using directory = await temporaryDirectory()
    const template = join(directory.path, 'template')
    await makeOld(template)
    for await (const { dataDir, isDone, isSame } of killedBeforeEachStep(template, 'two inserts')) {
      if (isSame) continue
      const { points } = (await contents(dataDir)) as typeof old
      assert.ok(
        [0, 3].includes(points.empty) && [oldPoints, oldPoints + 3].includes(points.old),
        JSON.stringify(points),
      )
      if (isDone) assert.deepEqual(points, { default: 2, empty: 3, old: oldPoints + 3 })
    }
  })
})
