import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { hashPoint } from '../src/base/point-hash.ts'
import { createHttpClient, type VectorClient } from '../src/client/index.ts'
import { Desk } from './support/desk.ts'
import { assertEnded, type Ended, run } from './support/process.ts'
import { apiKey, startTestCluster } from './support/service.ts'

/** Imports of ids of which one exists already. */

const idOf = (number: number): string => `0${number}000000-0000-4000-8000-000000000000`

function lineOf(number: number): string {
  return `{"id":"${idOf(number)}","vector":[1,${number}],"content":"${number}"}\n`
}

/** A point that is in the way. */
async function storeBefore(client: VectorClient, number: number): Promise<void> {
  await client.insert({
    id: idOf(number),
    vector: [1, 2],
    payload: { contentType: 'Text', content: 'stored before' },
  })
}

async function contentsOf(client: VectorClient): Promise<string[]> {
  const contents: string[] = []
  for await (const { payload } of client.listAll(undefined, { consistency: 'latest' }))
    contents.push(payload!.content!)
  return contents.sort()
}

describe('an import with an id that exists, into a single service', () => {
  it('stores nothing of the batch, and continues with a corrected file', async () => {
    await using desk = await Desk.open()
    await storeBefore(desk.client, 2)
    const file = desk.file('points.jsonl', lineOf(1) + lineOf(2) + lineOf(3))
    const args = ['import', file, '--keep-ids'] as const
    const refused = await desk.vicinal(...args)
    assertEnded(
      refused,
      1,
      /points\.jsonl:2: id: there is a point with the id \S+ already \(--skip-invalid skips such records\)/,
    )
    assert.doesNotMatch(refused.stderr, /stored|answered/)
    assert.deepEqual(await contentsOf(desk.client), ['stored before'])
    desk.file('points.jsonl', lineOf(1) + lineOf(3))
    assertEnded(await desk.vicinal(...args), 0)
    assert.deepEqual(await contentsOf(desk.client), ['1', '3', 'stored before'])
  })

  it('stores the others if it may skip the record', async () => {
    await using desk = await Desk.open()
    await storeBefore(desk.client, 2)
    const file = desk.file('points.jsonl', lineOf(1) + lineOf(2) + lineOf(3))
    assertEnded(
      await desk.vicinal('import', file, '--keep-ids', '--skip-invalid'),
      0,
      /points\.jsonl:2: id \S+ exists/,
    )
    assert.deepEqual(await contentsOf(desk.client), ['1', '3', 'stored before'])
  })

  it('continues when the point is gone', async () => {
    await using desk = await Desk.open()
    await storeBefore(desk.client, 2)
    const args = ['import', desk.file('points.jsonl', lineOf(1) + lineOf(2) + lineOf(3)), '--keep-ids']
    assertEnded(
      await desk.vicinal(...args),
      1,
      /points\.jsonl:2: id: there is a point with the id \S+ already/,
    )
    await desk.client.delete(idOf(2))
    assertEnded(await desk.vicinal(...args), 0)
    assert.deepEqual(await contentsOf(desk.client), ['1', '2', '3'])
  })
})

for (const transport of ['http', 'grpc'] as const) {
  describe(`an import with an id that exists, into a cluster over ${transport}`, () => {
    /** Batches of [1, 2, 3] and [4, 5], of which 2 exists; then of what `mend` makes of it. */
    async function mended(
      mend: (
        client: VectorClient,
        write: (lines: readonly string[]) => void,
        journal: string,
      ) => void | Promise<void>,
      ...more: readonly string[]
    ): Promise<{
      readonly first: Ended
      readonly second: Ended
      readonly contents: readonly string[]
      ids: string
    }> {
      await using desk = await Desk.open()
      await using cluster = await startTestCluster(['a', 'b'])
      const { httpUrl, grpcAddress } = cluster.services[0]!
      const client = createHttpClient({ baseUrl: httpUrl })
      await storeBefore(client, 2)
      const write = (lines: readonly string[]): string => desk.file('points.jsonl', lines.join(''))
      const file = write([1, 2, 3, 4, 5].map((number) => lineOf(number)))
      const to = transport === 'http' ? ['--http', httpUrl] : ['--grpc', grpcAddress, '--api-key', apiKey]
      const ids = desk.path('ids')
      const args = [
        'import',
        file,
        '--keep-ids',
        '--batch-size',
        '3',
        '--concurrency',
        '1',
        '--ids',
        ids,
        ...to,
      ]
      const first = await run(args)
      await mend(client, write, `${file}.vicinal-import`)
      const second = await run([...args, ...more])
      const contents = await contentsOf(client)
      return { first, second, contents, ids: desk.read('ids') }
    }

    it('stores the others of the batch, says so, and continues when the point is gone', async () => {
      const { first, second, contents, ids } = await mended((client) => client.delete(idOf(2)))
      assertEnded(first, 1, /points\.jsonl:2: id \S+ exists: .* \(--skip-invalid skips such records\)/)
      assert.match(first.stderr, /^2 points are stored; the same command continues after them$/m)
      assertEnded(second, 0, /^continuing after record 0, by the journal; of the others, 2 are stored\n$/)
      assert.deepEqual(contents, ['1', '2', '3', '4', '5'])
      assert.deepEqual(ids, [1, 2, 3, 4, 5].map((number) => `${idOf(number)}\n`).join(''))
    })

    it('says the same as long as the point is there', async () => {
      const { second, contents } = await mended(() => {})
      assertEnded(second, 1, /points\.jsonl:2: id: there is a point with the id \S+ already/)
      assert.match(second.stderr, /^2 points are stored; the same command continues after them$/m)
      assert.deepEqual(contents, ['1', '3', 'stored before'])
    })

    it('recognizes a batch that was sent in parts and not answered', async () => {
      const { first, second, contents } = await mended((_, __, journal) => {
        const hash = createHash('sha256')
        for (const number of [1, 2, 3]) {
          const payload = { contentType: 'Text', content: String(number) } as const
          hashPoint(hash, { id: idOf(number), vector: Float32Array.of(1, number), payload })
        }
        const sent = [
          { after: 0, end: 3, digest: hash.digest('hex'), sentMs: Date.now(), refusals: 0, inParts: true },
        ]
        const state = JSON.parse(readFileSync(journal, 'utf8')) as object
        writeFileSync(journal, JSON.stringify({ ...state, sent, refusals: 0, partlyStored: [] }))
      })
      assert.match(first.stderr, /points\.jsonl:2: id \S+ exists/)
      assertEnded(second, 1, /points\.jsonl:2: id \S+ exists/)
      assert.match(second.stderr, /^2 points are stored; the same command continues after them$/m)
      assert.deepEqual(contents, ['1', '3', 'stored before'])
    })

    it('continues with a corrected file', async () => {
      const { second, contents } = await mended((_, write) =>
        write([1, 3, 4, 5].map((number) => lineOf(number))),
      )
      assertEnded(second, 0, /^continuing after record 0, by the journal; of the others, 2 are stored\n$/)
      assert.deepEqual(contents, ['1', '3', '4', '5', 'stored before'])
    })

    it('skips the record if it may', async () => {
      const { second, contents } = await mended(() => {}, '--skip-invalid')
      assertEnded(second, 0, /points\.jsonl:2: id \S+ exists/)
      assert.match(second.stdout, /^4 points .*, 1 bad records skipped$/m)
      assert.deepEqual(contents, ['1', '3', '4', '5', 'stored before'])
    })
  })
}
