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

/** The value of a sample; undefined if /metrics does not contain it. */
function sampleOf(text: string, sample: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.slice(sample.length + 1))
}
