import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { auditRoutes } from './audit.ts'
import { routesFor } from './graph.ts'
import { Searcher } from './searcher.ts'

const seed = 20_261_122
const isLinux = process.platform === 'linux'

it(`an audit over rows on disk leaves no file open, seed ${seed}`, { skip: !isLinux }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-audit-'))
  try {
    const onDisk = join(directory, 'rows')
    await using fixture = new IndexFixture(32, { onDisk, searchThreads: 1, indexThreads: 1 })
    for (const vector of clusteredVectors(seededRandom(seed), 1000, 32)) fixture.insert(vector)
    await fixture.settled()
    assert.ok(fixture.indexer.route('Euclidean') !== undefined, 'recall was measured')
    // The fixture's own, and those that the index thread keeps for its scans and for its walks.
    assert.equal(descriptorsOf(onDisk), 3)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

it(`an audit asks no more of a route than shows that it is of no use, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  for (const vector of clusteredVectors(seededRandom(seed), 1000, 32)) fixture.insert(vector)
  await fixture.settled()
  const { index } = fixture
  const searcher = new Searcher(await loadKernels(), 0)
  index.onSegment((segment) => searcher.attach(segment))
  const asked = { Euclidean: 0, Hamming: 0 }
  const counting: Pick<Searcher, 'search'> = {
    search(queries, ...rest) {
      for (const { metric, route } of queries)
        if (route !== undefined) asked[metric as keyof typeof asked] += 1
      return searcher.search(queries, ...rest)
    },
  }
  const slots = Array.from({ length: 100 }, (_, place) => place * 10)
  const found = auditRoutes(counting, index.segments, {
    ...{ slots, slotCount: index.slotCount, k: 10, ef: 64, target: 0.98, floor: 0.97 },
    candidates: (['Euclidean', 'Hamming'] as const).map((metric) => {
      return { metric, routes: routesFor(metric, index.layout, [true, false]).slice(0, 1) }
    }),
  })
  const recalls = Object.fromEntries(found.map(({ metric, recall }) => [metric, recall]))
  assert.ok(recalls.Euclidean! >= 0.98, `Euclidean ${recalls.Euclidean}`)
  assert.equal(asked.Euclidean, slots.length)
  assert.ok(recalls.Hamming! < 0.97, `Hamming ${recalls.Hamming}`)
  assert.ok(asked.Hamming < slots.length / 2, `${asked.Hamming} walks under Hamming`)
})

function descriptorsOf(path: string): number {
  return readdirSync('/proc/self/fd').filter((name) => targetOf(name) === path).length
}

/** The descriptor of the listing itself is closed by then. */
function targetOf(name: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${name}`)
  } catch {
    return undefined
  }
}
