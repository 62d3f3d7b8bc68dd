import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'

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
