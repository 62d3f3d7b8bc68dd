import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceMetrics } from './metrics.ts'

describe('counted requests', () => {
  it('are all in /metrics by operation, transport and outcome, however many there were since the last request for it', async () => {
    const metrics = new ServiceMetrics()
    const expected = { ok: 0, failed: 0, seconds: 0 }
    for (const count of [1, 255, 256, 257, 1000]) {
      for (let request = 0; request < count; request += 1) {
        const hasFailed = request % 5 === 4
        metrics.request('SearchPoints', 'grpc', hasFailed ? 'overloaded' : 'ok', 0.003)
        metrics.request('SearchPoints', 'http', 'ok', 0.002)
        expected.ok += Number(!hasFailed)
        expected.failed += Number(hasFailed)
        expected.seconds += 0.003
      }
      const { text } = await metrics.expose()
      const of = 'operation="SearchPoints",transport="grpc"'
      assert.equal(sampleOf(text, `vicinal_requests_total{${of},outcome="ok"}`), expected.ok)
      assert.equal(sampleOf(text, `vicinal_requests_total{${of},outcome="overloaded"}`) ?? 0, expected.failed)
      const all = expected.ok + expected.failed
      assert.equal(sampleOf(text, `vicinal_request_duration_seconds_count{${of}}`), all)
      assert.equal(sampleOf(text, `vicinal_request_duration_seconds_bucket{le="0.0025",${of}}`), 0)
      assert.equal(sampleOf(text, `vicinal_request_duration_seconds_bucket{le="0.005",${of}}`), all)
      const sum = sampleOf(text, `vicinal_request_duration_seconds_sum{${of}}`)!
      assert.ok(Math.abs(sum - expected.seconds) < 1e-6, `${sum} is ${expected.seconds}`)
    }
  })
})

describe('gauges that are read', () => {
  it('are of what there is now, and one that cannot be read leaves the others there', async () => {
    const metrics = new ServiceMetrics()
    let points: (readonly [string, number])[] | undefined = [
      ['papers', 1],
      ['books', 2],
    ]
    const read = (): (readonly [string, number])[] => points ?? assert.fail('the disk is gone')
    metrics.gauges('points', 'By collection.', 'collection', read)
    metrics.gauge('all_points', 'Together.', () => read().reduce((sum, [, count]) => sum + count, 0))
    metrics.gauge('answer', 'Always there.', () => 42)
    const samples = async (): Promise<unknown> => {
      const { text } = await metrics.expose()
      const names = ['points{collection="papers"}', 'points{collection="books"}', 'all_points', 'answer']
      return names.map((name) => sampleOf(text, name))
    }
    assert.deepEqual(await samples(), [1, 2, 3, 42])
    points = [['books', 5]]
    assert.deepEqual(await samples(), [undefined, 5, 5, 42])
    points = undefined
    assert.deepEqual(await samples(), [undefined, undefined, undefined, 42])
    points = [['papers', 7]]
    assert.deepEqual(await samples(), [7, undefined, 7, 42])
  })
})

/** The value of a sample; undefined if /metrics does not contain it. */
function sampleOf(text: string, sample: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.slice(sample.length + 1))
}
