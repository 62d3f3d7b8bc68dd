import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setNames } from '../shared/data/data-set.ts'
import { type IndexResults, withResults } from './docs.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/decisions/benchmarks.md'), 'utf8')

const rounds = (speeds: readonly number[]) => [
  { samples: [], speeds },
  { samples: [], speeds },
]

function resultsOf(name: string): IndexResults {
  const contender = (
    library: string,
    factor: number,
  ): IndexResults['results'][number]['contenders'][number] => ({
    name: library,
    reused: false,
    builds: [
      { threads: 2, seconds: 8.25 / factor, memoryBytes: 300 * 2 ** 20, peakBytes: 0, ownBytes: 0 } as never,
    ],
    searches: [1, 2].map((threads) => ({
      threads,
      sweep: [],
      rounds: rounds([4000, 3000, 2000, 1000].map((speed) => threads * factor * speed)),
    })),
  })
  return {
    time: '2026-11-28T07:00:00.000Z',
    machine: { processor: 'Some CPU', cores: 2, node: '24.0.0', memoryBytes: 0, system: '', load: 0 },
    results: [
      {
        set: { name: name as never, description: '', dimension: 2, count: 1, queryCount: 1 },
        contenders: [contender('vicinal', 4), contender('hnswlib', 1)],
      },
    ],
  }
}

describe('the page of results', () => {
  it('gets the table of a data set, and keeps everything else', () => {
    const written = withResults(page, resultsOf('wordnet'))
    assert.match(
      written,
      /\n<!-- bench:index wordnet -->\n\nSome CPU, 2 cores, Node 24\.0\.0, 2026-11-28:\n\n\|/,
    )
    assert.match(written, /\n\| vicinal +\| +16,000 \/ 32,000 \|.*\| +2\.1 s \| +300 \|\n/)
    assert.match(written, /vicinal is 4\.00, 4\.00, 4\.00 and 4\.00 times as fast as hnswlib on 1 thread,/)
    const outside = (text: string): string => text.replace(/<!-- bench:index wordnet -->.*?<!-- end -->/s, '')
    assert.equal(outside(written), outside(page))
  })

  it('gets the table of a curve', () => {
    const { time, machine } = resultsOf('wordnet')
    const curve = { time, machine, curve: 'scale', headings: ['step', 'seconds'], rows: [['stored', '5.0']] }
    assert.match(
      withResults(page, curve),
      /\n<!-- bench:index --curve scale -->\n\nSome CPU, .*:\n\n\| step .*\n\| -.*\n\| stored +\| +5\.0 \|\n\n<!-- end -->/,
    )
  })

  it('gets the sections of other benchmarks', () => {
    const { time, machine } = resultsOf('wordnet')
    for (const name of [
      'bench:service wordnet',
      'bench:service --curve cores',
      'bench:cluster throughput',
      'bench:cluster faults',
      'bench:cluster join',
    ]) {
      const written = withResults(page, { time, machine, sections: { [name]: 'as measured' } })
      assert.ok(
        written.includes(
          `<!-- ${name} -->\n\nSome CPU, 2 cores, Node 24.0.0, 2026-11-28:\n\nas measured\n\n<!-- end -->`,
        ),
      )
    }
  })

  it('has a section for each data set with results; others are refused', () => {
    for (const name of ['wordnet', 'wide', 'manifold'] as const) {
      assert.ok(setNames.includes(name))
      assert.notEqual(withResults(page, resultsOf(name)), page)
    }
    assert.throws(() => withResults(page, resultsOf('none')), /has no section <!-- bench:index none -->/)
  })
})
