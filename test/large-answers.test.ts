import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHttpClient } from '../src/client/http-client.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'

describe('answers that are far larger than their questions', () => {
  it('are refused or given, and neither end the process nor hold up the others', {
    timeout: 300_000,
  }, async () => {
    await using directory = await temporaryDirectory()
    await using server = await ServerProcess.start(directory.path, {
      NODE_OPTIONS: '--max-old-space-size=512',
    })
    const client = createHttpClient({ baseUrl: server.httpUrl, retries: 0 })
    const point = (index: number) =>
      ({ vector: [index, 1], payload: { contentType: 'Text', content: '' } }) as const
    for (let from = 0; from < 16_384; from += 4096) {
      await client.insertBatch(Array.from({ length: 4096 }, (_, index) => point(from + index)))
    }
    // Half a megabyte of questions for 160 million ids.
    const query = { vector: [1, 1], metric: 'Euclidean', limit: 16_384 } as const
    const outcome = client.searchBatch(new Array(10_000).fill(query)).then(
      () => 'answered',
      (error) => error.reason,
    )
    for (let isOver = false; !isOver; ) {
      await client.search({ vector: [5, 1], metric: 'Euclidean', limit: 1 })
      isOver = await Promise.race([
        outcome.then(() => true),
        new Promise<false>((resolve) => setTimeout(resolve, 20, false)),
      ])
    }
    assert.match(await outcome, /answered|invalid_argument|overloaded|request_too_large/)
    assert.equal(server.command.child.exitCode, null)
  })
})
