import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { buckets, parseMetrics, quantile, single, total } from './prometheus.ts'

const text = `# HELP vicinal_requests_total Requests.
vicinal_requests_total{operation="SearchPoints",outcome="ok"} 12
vicinal_requests_total{operation="GetPoint",outcome="ok"} 3
vicinal_requests_total{operation="SearchPoints",outcome="overloaded"} 1
vicinal_build_info{version="0.1.0",note="a \\"quoted\\" \\\\ one, with {braces}"} 1
vicinal_points 300
nodejs_version_info 1
vicinal_seconds_bucket{le="0.1",operation="a"} 2
vicinal_seconds_bucket{le="0.2",operation="a"} 6
vicinal_seconds_bucket{le="+Inf",operation="a"} 8
`

describe('metrics', () => {
  const samples = parseMetrics(text, ['vicinal_'])

  it('are read with their labels', () => {
    assert.equal(single(samples, 'vicinal_points'), 300)
    assert.equal(single(samples, 'nodejs_version_info'), undefined)
    assert.equal(samples.get('vicinal_build_info')![0]!.labels.note, 'a "quoted" \\ one, with {braces}')
  })

  it('are summed over the series that match', () => {
    assert.equal(total(samples, 'vicinal_requests_total'), 16)
    assert.equal(total(samples, 'vicinal_requests_total', { operation: 'SearchPoints' }), 13)
    assert.equal(
      total(samples, 'vicinal_requests_total', { operation: ['GetPoint', 'SearchPoints'], outcome: 'ok' }),
      15,
    )
    assert.equal(total(samples, 'vicinal_nothing'), 0)
  })
})

describe('a quantile', () => {
  const after = buckets(parseMetrics(text, ['vicinal_']), 'vicinal_seconds')

  it('is interpolated within its bucket', () => {
    assert.equal(quantile(0.25, new Map(), after), 0.1)
    assert.ok(Math.abs(quantile(0.5, new Map(), after)! - 0.15) < 1e-12)
  })

  it('is at most the last finite bound', () => {
    assert.equal(quantile(0.99, new Map(), after), 0.2)
  })

  it('covers only observations between two readings', () => {
    const before = new Map([
      [0.1, 2],
      [0.2, 2],
      [Number.POSITIVE_INFINITY, 4],
    ])
    assert.ok(Math.abs(quantile(0.5, before, after)! - 0.15) < 1e-12)
    assert.equal(quantile(0.5, after, after), undefined)
  })
})
