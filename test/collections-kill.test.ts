import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { createLogger } from '../src/base/log.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import type { DataStore } from '../src/storage/store.ts'
import { temporaryDirectory } from './support/process.ts'
import { contentsOf, groupOf, insertionsOf, refusedRequest } from './support/stored-points.ts'

/**
 * A process that changes the collections of a data directory is killed before each of its steps on the disk, in turn.
 * Afterwards, the directory has the old state or the complete change, and nothing is left behind. `npm test` kills
 * before every third step, `npm run test:kill-steps` before each.
 */

const stride = process.env.ALL_STEPS === '1' ? 1 : 3

const oldPoints = 2500

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
    return { points, outcomes: keyed?.outcome?.length, sequence, slotCount, keyedRequestCount }
  })
}

/** Runs the child and kills it before a step. Returns whether it reported `done`, and its steps. */
async function change(
  dataDir: string,
  what: string,
  before: number,
): Promise<{ readonly isDone: boolean; readonly isKilled: boolean; readonly steps: number }> {
  const preload = new URL('./support/kill-steps-preload.ts', import.meta.url)
  const countPath = join(dataDir, '..', 'count')
  rmSync(countPath, { force: true })
  preload.searchParams.set('before', String(before))
  preload.searchParams.set('count', countPath)
  const child = spawn(
    process.execPath,
    [
      '--import',
      preload.href,
      join(import.meta.dirname, 'support/changing-child.ts'),
      dataDir,
      what,
      countPath,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  const [code, signal] = await once(child, 'close')
  assert.ok(signal === 'SIGKILL' || code === 0, `${what} ended with ${code ?? signal}`)
  const steps = statSync(countPath).size
  return { isDone: output.includes('done'), isKilled: signal === 'SIGKILL', steps }
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
  const list = (): string[] =>
    existsSync(directory) ? readdirSync(directory).filter((name) => name !== 'reserve') : []
  for (let attempt = 0; attempt < 20 && list().length > numbers.length; attempt += 1) {
    await withData(dataDir, async () => {})
  }
  return list().sort()
}

const plain = { points: { default: 2 }, aliases: {} }
const old = { points: { default: 2, empty: 0, old: 2500 }, aliases: { a: 'old', b: 'old' } }

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
    directories: [[], ['1']],
    stepsMin: 15,
  },
  {
    what: 'first insert',
    make: makeOld,
    before: old,
    after: { ...old, points: { default: 2, empty: 3, old: 2500 } },
    directories: [['1', '2']],
    stepsMin: 8,
  },
  {
    what: 'aliases',
    make: makeOld,
    before: old,
    after: { ...old, aliases: { a: 'empty', c: 'default' } },
    directories: [['1', '2']],
    stepsMin: 1,
  },
  {
    what: 'drop',
    make: makeOld,
    before: old,
    after: { points: { default: 2, empty: 0 }, aliases: {} },
    directories: [['1', '2'], ['1']],
    stepsMin: 6,
  },
]

describe('a process that is killed before any step', () => {
  for (const { what, make, before, after, directories, stepsMin } of cases) {
    it(`of ${what} leaves the old state or the complete change, and nothing else`, async () => {
      await using directory = await temporaryDirectory()
      const [template, dataDir] = [join(directory.path, 'template'), join(directory.path, 'data')]
      await make(template)
      let hasChanged = false
      for (let step = 1; ; step += stride) {
        cpSync(template, dataDir, { recursive: true })
        const { isDone, isKilled, steps } = await change(dataDir, what, step)
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
        rmSync(dataDir, { recursive: true })
        if (isKilled) continue
        assert.ok(steps >= stepsMin, `${steps} steps were counted`)
        break
      }
      assert.ok(hasChanged)
    })
  }

  for (const what of ['changes', 'refusals']) {
    it(`of a commit of ${what} leaves points and keys unchanged or completely changed`, async () => {
      await using directory = await temporaryDirectory()
      const [template, dataDir] = [join(directory.path, 'template'), join(directory.path, 'data')]
      await makeOld(template)
      const before = await everything(template)
      cpSync(template, dataDir, { recursive: true })
      const { isDone: isDoneAtLast, steps } = await change(dataDir, what, Number.POSITIVE_INFINITY)
      assert.ok(isDoneAtLast && steps > 0)
      const after = await everything(dataDir)
      assert.notDeepEqual(after, before)
      for (let step = 1; step <= steps; step += stride) {
        rmSync(dataDir, { recursive: true })
        cpSync(template, dataDir, { recursive: true })
        const { isDone } = await change(dataDir, what, step)
        const found = await everything(dataDir)
        const isChanged = isDeepStrictEqual(found, after)
        if (!isChanged) assert.deepEqual(found, before, `killed before step ${step}`)
        assert.ok(isChanged || !isDone, `step ${step}`)
      }
    })
  }

  it('of inserts into two collections leaves each insert complete or absent', async () => {
    await using directory = await temporaryDirectory()
    const [template, dataDir] = [join(directory.path, 'template'), join(directory.path, 'data')]
    await makeOld(template)
    for (let step = 1; ; step += stride) {
      cpSync(template, dataDir, { recursive: true })
      const { isDone, isKilled } = await change(dataDir, 'two inserts', step)
      const { points } = (await contents(dataDir)) as typeof old
      assert.ok([0, 3].includes(points.empty) && [2500, 2503].includes(points.old), JSON.stringify(points))
      if (isDone) assert.deepEqual(points, { default: 2, empty: 3, old: 2503 })
      rmSync(dataDir, { recursive: true })
      if (!isKilled) break
    }
  })
})
