import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'

const folder = mkdtempSync(join(tmpdir(), 'vicinal-bench-'))
after(() => rmSync(folder, { recursive: true }))

/** Runs the benchmark. @returns the result that it writes */
function run(...options: readonly string[]): Record<string, unknown> {
  const output = join(folder, `${options.length}.json`)
  const main = join(import.meta.dirname, 'main.ts')
  const places = ['--cache', join(folder, 'cache'), '--output', output]
  const { VICINAL_BENCH_DATA: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, '--quick', ...options, ...places], {
    encoding: 'utf8',
    env,
  })
  assert.equal(status, 0, stderr)
  assert.match(stdout, /### Targets/)
  return JSON.parse(readFileSync(output, 'utf8'))
}

interface ResultFile {
  readonly results: readonly {
    readonly faults: readonly unknown[]
    readonly cells: readonly {
      readonly name: string
      readonly results: readonly {
        readonly way: string
        readonly recall: number
        readonly short: number
        readonly queries: number
        readonly plans: Record<string, number>
      }[]
    }[]
  }[]
}

describe('the filter benchmark', () => {
  it('runs from the data to the result, over the demo data', () => {
    const result = run(
      ...['--ways', 'planned,served,exact,scan,walk,post', '--selectivities', '5,50', '--k', '10'],
      ...['--kinds', 'negation', '--queries', '20'],
    ) as unknown as ResultFile
    const [set] = result.results
    assert.deepEqual(set!.faults, [])
    assert.deepEqual(
      set!.cells.map(({ name }) => name),
      [
        'independent negation 5 %',
        'near negation 5 %',
        'far negation 5 %',
        'independent negation 50 %',
        'near negation 50 %',
        'far negation 50 %',
        'pos != noun',
      ],
    )
    for (const { name, results } of set!.cells) {
      assert.equal(results.length, 6)
      for (const { way, recall, short, queries, plans } of results) {
        const told = `${way}: ${name}`
        assert.equal(queries, 20, told)
        assert.equal(
          Object.values(plans).reduce((sum, count) => sum + count, 0),
          20,
          told,
        )
        if (way === 'exact' || way === 'scan') assert.equal(recall, 1, told)
        if (way === 'planned' || way === 'served') assert.ok(recall > 0.9, told)
        if (way !== 'post') assert.equal(short, 0, told)
      }
    }
  })

  it('measures the cost of filter evaluation', () => {
    const { evaluation } = run('--evaluate', '--rows', '3000') as {
      readonly evaluation: {
        readonly points: number
        readonly bytesPerPoint: number
        readonly filters: readonly { readonly matching: number }[]
      }
    }
    assert.equal(evaluation.points, 3000)
    assert.ok(evaluation.bytesPerPoint > 0)
    assert.equal(evaluation.filters.length, 3)
    for (const { matching } of evaluation.filters) assert.ok(matching > 0 && matching < 3000)
  })

  it('measures the time of a start', () => {
    const { starts } = run('--start') as {
      readonly starts: {
        readonly points: number
        readonly warm: readonly number[]
        readonly withoutFile: readonly number[]
      }
    }
    assert.equal(starts.points, 2000)
    for (const seconds of [...starts.warm, ...starts.withoutFile]) assert.ok(seconds > 0)
  })
})
