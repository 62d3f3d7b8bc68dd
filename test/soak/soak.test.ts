import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../support/random.ts'
import { longBounds, shortBounds } from './bounds.ts'
import { type Growth, growths, type Held, held, type Sample } from './flatness.ts'
import { soak } from './soak.ts'

const mebibyte = 1024 * 1024

/** Thirty samples of a long soak: the level of a warm service with noise, plus the growth of a leak. */
function recorded(leak: (requests: number) => Partial<Record<Held, number>>, seed = 7): Sample[] {
  const random = seededRandom(seed)
  const around = (value: number, noise: number): number => value + noise * (random() - 0.5)
  return Array.from({ length: 30 }, (_, number) => {
    const requests = ((number + 1) * 500_000) / 30
    const warmth = 1 - Math.exp(-number / 4)
    const level: Sample = {
      requests,
      heapBytes: around((14 + 12 * warmth) * mebibyte, 0.5 * mebibyte),
      externalBytes: around((6 + 2 * warmth) * mebibyte, 0.5 * mebibyte),
      rssBytes: around((140 + 80 * warmth) * mebibyte, 8 * mebibyte),
      files: 30 + Math.floor(random() * 3),
      resources: 12 + Math.floor(random() * 2),
    }
    const added = leak(requests)
    const entries = held.map((what) => [what, level[what] + (added[what] ?? 0)])
    return { ...level, ...Object.fromEntries(entries) }
  })
}

function grown(found: readonly Growth[]): Held[] {
  return found.filter(({ isFlat }) => !isFlat).map(({ what }) => what)
}

describe('the judge of a soak', () => {
  it('accepts a service that stays level after its warm-up as flat, whatever the noise', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      assert.deepEqual(
        grown(
          growths(
            recorded(() => ({}), seed),
            longBounds,
          ),
        ),
        [],
        `seed ${seed}`,
      )
    }
  })

  it('ignores a temporary peak', () => {
    const samples = recorded(() => ({}))
    const spike = samples.map((sample, number) =>
      number === 20 ? { ...sample, heapBytes: 2 * sample.heapBytes, files: 90 } : sample,
    )
    assert.deepEqual(grown(growths(spike, longBounds)), [])
  })

  it('detects an object leaked by every request', () => {
    assert.deepEqual(
      grown(
        growths(
          recorded((requests) => ({ heapBytes: 50 * requests })),
          longBounds,
        ),
      ),
      ['heapBytes'],
    )
  })

  it('detects a buffer leaked by every twentieth request', () => {
    const leak = (requests: number) => ({
      externalBytes: (16_384 / 20) * requests,
      rssBytes: (16_384 / 20) * requests,
    })
    assert.deepEqual(grown(growths(recorded(leak), longBounds)), ['externalBytes', 'rssBytes'])
  })

  it('detects one unclosed socket per thousand connections', () => {
    const leak = (requests: number) => {
      const sockets = Math.floor(requests / 20 / 1000)
      return { files: sockets, resources: sockets }
    }
    assert.deepEqual(grown(growths(recorded(leak), longBounds)), ['files', 'resources'])
  })

  it('detects memory outside of the heap that grows in steps', () => {
    const leak = (requests: number) => ({ rssBytes: Math.floor(requests / 100_000) * 20 * mebibyte })
    assert.deepEqual(grown(growths(recorded(leak), longBounds)), ['rssBytes'])
  })

  it('refuses to judge too few samples', () => {
    assert.throws(() => growths(recorded(() => ({})).slice(0, 8), longBounds), /too few/)
  })
})

describe('a service under constant load', () => {
  it('answers every kind of request correctly, and its resources do not grow', async () => {
    const seed = 20_261_121
    const result = await soak({ seed, requests: 1500, points: 300, samples: 12, bounds: shortBounds })
    const shown = JSON.stringify(
      { seed, growths: result.growths, samples: result.samples, tally: [...result.tally] },
      null,
      1,
    )
    assert.deepEqual(grown(result.growths), [], shown)
    for (const answer of expected) assert.ok(result.tally.has(answer), `no ${answer}: ${shown}`)
    for (const answer of result.tally.keys()) assert.match(answer, sound, shown)
  })
})

/** Answers that every soak must include. */
const expected = [
  'grpc keep: 0',
  'grpc keep batch: 0',
  'grpc get: 0',
  'grpc get missing: 5',
  'grpc search: 0',
  'grpc search batch: 0',
  'grpc search wrong: 3',
  'grpc left in the middle',
  'http keep: 201',
  'http keep: 204',
  'http keep batch: 201',
  'http get: 200',
  'http get missing: 404',
  'http search: 200',
  'http search batch: 200',
  'http search wrong: 400',
  'http left in the middle',
]

/** An aborted search may be answered before; another visitor may have deleted the requested point. */
const sound =
  /^(grpc (keep|keep batch|search|search batch): 0|grpc get: [05]|grpc get missing: 5|grpc search wrong: 3|grpc search given up: (0|1|4|given up)|http (keep|keep batch): 20[14]|http get: (200|404)|http get missing: 404|http search( batch)?: 200|http search wrong: 400|http search given up: (200|given up)|(grpc|http) left in the middle)$/
