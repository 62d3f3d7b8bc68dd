import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture, leastRecall } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { codeBitsChoices, segmentLayout, slotBytes } from '../index/segment.ts'

const seed = 20_261_121

const directories: string[] = []
after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-code-width-'))
  directories.push(directory)
  return directory
}

/** Far from the origin compared with the distances between the vectors, as all-positive features are. */
function offset(vectors: Float32Array[]): Float32Array[] {
  return vectors.map((vector) => vector.map((value, index) => value + 20 * Math.sin(index)))
}

describe(`codes of either width, seed ${seed}`, () => {
  for (const codeBits of codeBitsChoices) {
    for (const place of ['in memory', 'on disk'] as const) {
      it(`find at least 0.98, ${codeBits} bits, rows ${place}`, async () => {
        for (const make of [(vectors: Float32Array[]) => vectors, offset]) {
          const vectors = make(clusteredVectors(seededRandom(seed), 1050, 160))
          const queries = vectors.splice(1000)
          const onDisk = place === 'on disk' ? { onDisk: join(temporaryDirectory(), 'rows') } : {}
          await using fixture = new IndexFixture(160, { codeBits, ...onDisk })
          for (const vector of vectors) fixture.insert(vector)
          await fixture.settled()
          for (const metric of ['Euclidean', 'Cosine'] as const) {
            assert.ok(fixture.indexer.route(metric) !== undefined, `${metric} goes through a graph`)
            const recall = await fixture.recall(queries, metric)
            assert.ok(recall >= leastRecall(queries), `${metric} recalls ${recall}`)
          }
          await fixture.indexer.repaired()
          assert.deepEqual(fixture.faults(), [])
        }
      })
    }
  }

  it('can change between starts: the graph is kept and recall is measured again', async () => {
    const directory = temporaryDirectory()
    const vectors = clusteredVectors(seededRandom(seed), 1250, 300)
    const queries = vectors.splice(1200)
    const built = new IndexFixture(300, { directory, codeBits: 4 })
    for (const vector of vectors) built.insert(vector)
    await built.settled()
    await built.close()
    const { kept } = built
    for (const codeBits of [7, 4] as const) {
      const fixture = await IndexFixture.restarted(directory, kept, codeBits)
      assert.equal(fixture.indexer.unindexed, 0, 'nothing is linked again')
      await fixture.settled()
      assert.ok(fixture.indexer.route('Euclidean') !== undefined)
      const recall = await fixture.recall(queries, 'Euclidean')
      assert.ok(recall >= leastRecall(queries), `${codeBits} bits recall ${recall}`)
      await fixture.close()
      await using again = await IndexFixture.restarted(directory, kept, codeBits)
      assert.ok(!again.indexer.isSettling, 'the new measurements were saved')
    }
  })
})

describe('memory a point', () => {
  const options = { dimension: 512, threads: 5, maxLimit: 100, m: 16, efConstruction: 200 }

  it('is at most 1.25 times the float32 values, in addition to the links', () => {
    assert.ok(slotBytes(segmentLayout(options), 0) + idBytes - linkBytes <= 1.25 * 2048)
  })

  it('is at most 15 % more than codes and links with rows on disk', () => {
    const layout = segmentLayout({ ...options, rowsOnDisk: true })
    assert.ok(slotBytes(layout, 0) + idBytes <= 1.15 * (layout.codeBytes + linkBytes))
  })

  /** What docs/decisions/index.md counts in addition to the segment: the id and the marks of five threads. */
  const idBytes = 26 + 5
  const linkBytes = 8 * 16 + Math.ceil((4 * 16) / 15)
})
