import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint, SearchQuery } from '../src/base/point.ts'
import { readConfig } from '../src/config.ts'
import { Board, placesMax } from '../src/search/board.ts'
import { openCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'

const seed = 20_271_018
const dimension = 512
const payload = { contentType: 'Text', content: '' } as const

/** The boards on which searches are submitted to search threads. */
class Boards implements Disposable {
  readonly #boards = new Set<Board>()
  readonly #submit = Board.prototype.submit
  submitted = 0

  constructor() {
    const note = (board: Board): void => {
      this.#boards.add(board)
      this.submitted += 1
    }
    const submit = this.#submit
    Board.prototype.submit = function (...work) {
      note(this)
      submit.apply(this, work)
    }
  }

  /** Blocks the event loop until the search threads have finished, so that their results are not processed yet. */
  hold(): void {
    const isBusy = (board: Board): boolean =>
      Array.from({ length: placesMax }, (_, place) => board.stateOf(place)).some(
        (state) => state === 'open' || state === 'taken',
      )
    while ([...this.#boards].some(isBusy)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  }

  [Symbol.dispose](): void {
    Board.prototype.submit = this.#submit
  }
}

describe(`a point that is removed between being found and being returned, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const point = (): NewPoint => ({ vector: randomVector(random, dimension, 'continuous'), payload })
  const query = (limit: number): SearchQuery => {
    return { vector: randomVector(random, dimension, 'continuous'), metric: 'Euclidean', limit, ef: limit }
  }
  const searches: Readonly<Record<string, readonly SearchQuery[]>> = {
    'a single search, its slots shared out': [query(2000)],
    'a batch, with lists of different lengths': [query(2000), query(7), query(1)],
  }
  for (const [name, queries] of Object.entries(searches)) {
    it(`is replaced by the next nearest in ${name}, also if another point takes its slot`, async () => {
      using boards = new Boards()
      await using directory = await temporaryDirectory()
      const config = readConfig({ THREADS: '2' })
      await using opened = await openCollection(directory.path, config)
      const { collection } = opened
      const { livePoints } = collection
      // Too many bytes for a search on the calling thread.
      await collection.insert(Array.from({ length: 1000 }, point))
      const before = (await collection.search(queries)).ids.strings()
      const [nearest] = before
      assert.equal(nearest!.length, 1000)

      const { submitted } = boards
      const search = collection.search(queries)
      assert.ok(boards.submitted > submitted)
      boards.hold()
      const deleted = nearest![0]!
      const replaced = nearest![3]!
      const [emptySlot, refilledSlot] = [livePoints.table.find(deleted), livePoints.table.find(replaced)]
      const { sequence } = collection.stats
      livePoints.apply({ kind: 'delete', id: deleted, sequence: sequence + 1 }, emptySlot)
      livePoints.apply({ kind: 'delete', id: replaced, sequence: sequence + 2 }, refilledSlot)
      const added = newId()
      livePoints.apply({ kind: 'insert', id: added, sequence: sequence + 3, point: point() }, refilledSlot)

      const found = (await search).ids.strings()
      const gone = (id: string): boolean => id === deleted || id === replaced
      assert.ok(!found.flat().some(gone))
      // Each list is as long as the points allow, and contains the new point only in its own place.
      assert.deepEqual(
        found.map((ids) => ids.length),
        queries.map(({ limit }) => Math.min(limit, 999)),
      )
      assert.deepEqual(found, (await collection.search(queries)).ids.strings())
      const kept = before.map((ids) => ids.filter((id) => !gone(id)))
      assert.deepEqual(
        found.map((ids, at) => ids.filter((id) => id !== added).slice(0, kept[at]!.length)),
        kept,
      )
    })
  }
})
