import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createHttpClient } from '../src/client/http.ts'
import { vicinal } from './support/programs.ts'
import { startTestService, type TestService } from './support/service.ts'

/** `vicinal mcp` as the protocol's own client sees it, in front of a real service. */
describe('vicinal mcp', () => {
  let service: TestService
  let ids: readonly string[]

  before(async () => {
    service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const colours = ['red', 'green', 'blue']
    ids = await client.insertBatch(
      colours.map((colour, index) => ({
        vector: [index, 1],
        payload: { contentType: 'Text', content: `a ${colour} thing`, attributes: { colour, index } },
      })),
    )
  })
  after(() => service?.[Symbol.asyncDispose]())

  async function overStdio(...flags: readonly string[]): Promise<Client> {
    const client = new Client({ name: 'test', version: '1' })
    const args = [vicinal, 'mcp', '--http', service.httpUrl, ...flags]
    await client.connect(new StdioClientTransport({ command: process.execPath, args }))
    return client
  }

  async function call(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { content } = await client.callTool({ name, arguments: args })
    const [part] = content as { type: string; text: string }[]
    return part!.text
  }

  it('offers only read tools unless writing is enabled', async () => {
    const reading = await overStdio()
    const names = (await reading.listTools()).tools.map(({ name }) => name).sort()
    assert.deepEqual(names, ['count', 'describe', 'evaluate', 'facets', 'get', 'list', 'search'])
    await reading.close()
    const writing = await overStdio('--write')
    assert.equal((await writing.listTools()).tools.length, names.length + 2)
    await writing.close()
  })

  it('describes, searches, gets, counts and lists', async () => {
    const client = await overStdio()
    assert.match(await call(client, 'describe'), /"name":"default".*"points":3/)
    const found = await call(client, 'search', {
      vector: [0, 1],
      metric: 'Euclidean',
      filter: { colour: { $ne: 'red' } },
    })
    assert.deepEqual(
      found.split('\n').map((line) => (JSON.parse(line) as { id: string }).id),
      [ids[1], ids[2]],
    )
    const near = await call(client, 'search', { id: ids[0], metric: 'Euclidean', limit: 1 })
    assert.equal((JSON.parse(near) as { id: string }).id, ids[1])
    assert.match(await call(client, 'get', { id: ids[0] }), /a red thing/)
    assert.equal(await call(client, 'count', { filter: { index: { $gte: 1 } } }), '2')
    const [first, second, next] = (await call(client, 'list', { limit: 2 })).split('\n')
    assert.ok(first!.includes(ids[0]!) && second!.includes(ids[1]!))
    const { next_cursor: cursor } = JSON.parse(next!) as { next_cursor: string }
    assert.match(await call(client, 'list', { cursor }), new RegExp(`^[^\n]*${ids[2]}[^\n]*$`))
    assert.match(await call(client, 'facets', { paths: ['colour'] }), /"red"/)
    await client.close()
  })

  it('searches by words, and measures how good that is', async () => {
    const client = await overStdio()
    const words = createHttpClient({ baseUrl: service.httpUrl }).collections.put('default', {
      words: { paths: { content: 1 } },
    })
    await words
    const boost = [{ filter: { colour: 'blue' }, weight: 1 }]
    const page = { words: 'thing', limit: 2, cursor: '', highlight: true }
    const [first, , next] = (await call(client, 'search', page)).split('\n').map((line) => JSON.parse(line))
    assert.deepEqual(first.highlight, [{ path: 'content', parts: ['a red ', 'thing', ''] }])
    const rest = await call(client, 'search', { ...page, cursor: next.next_cursor })
    assert.equal(JSON.parse(rest).id, ids[2])
    const judgements = [{ words: 'thing', vector: [2, 1], relevant: { [ids[2]!]: 1 } }]
    const asked = { judgements, k: 1, metric: 'Euclidean', boost, diversity: 0.1, sweep: ['balance'] }
    const { ndcg, curve } = JSON.parse(await call(client, 'evaluate', asked))
    assert.deepEqual([ndcg, curve.length], [1, 21])
    assert.match(await call(client, 'search', { words: 'thing', filters: {} }), /filters/)
    await client.close()
  })

  it('reports refusals of the service as results', async () => {
    const client = await overStdio()
    const result = await client.callTool({ name: 'count', arguments: { filter: { price: { $gtee: 1 } } } })
    assert.equal(result.isError, true)
    assert.match((result.content as { text: string }[])[0]!.text, /filter\.price\.\$gtee/)
    const boost = [{ recent: null, weight: 1 }]
    assert.match(await call(client, 'search', { vector: [1, 1], boost }), /^invalid_argument: boost\[0\]/)
    await client.close()
  })

  it('stores and deletes over Streamable HTTP', async () => {
    const child = spawn(
      process.execPath,
      [vicinal, 'mcp', '--http', service.httpUrl, '--write', '--port', '0'],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    )
    const [line] = (await once(createInterface(child.stderr), 'line')) as [string]
    const url = new URL(/http:\S+/.exec(line)![0])
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(url))
    const point = { vector: [9, 9], content: 'new', attributes: { made: { $date: '2026-01-31T00:00:00Z' } } }
    // As the service, the tools take any UUID, also of a version that RFC 9562 does not know.
    const odd = '12345678-1234-0234-1234-123456789abc'
    assert.equal(await call(client, 'upsert', { ...point, id: odd }), odd)
    assert.equal(await call(client, 'delete', { id: odd }), 'deleted')
    const id = await call(client, 'upsert', point)
    await call(client, 'upsert', { ...point, id, content: 'newer' })
    assert.match(await call(client, 'get', { id }), /newer.*2026-01-31T00:00:00Z/)
    for (const $date of ['tomorrow', 5]) {
      const { isError, content } = await client.callTool({
        name: 'upsert',
        arguments: { ...point, attributes: { made: { $date } } },
      })
      assert.equal(isError, true)
      assert.match(JSON.stringify(content), /invalid_argument: payload\.attributes\.made\.\$date is /)
    }
    assert.match(await call(client, 'delete', { id, dry_run: true }), /^invalid_argument: dry_run is true, /)
    const filter = { made: { $exists: true } }
    assert.equal(await call(client, 'delete', { filter, dry_run: true }), '1 points match')
    assert.equal(await call(client, 'delete', { filter }), '1 points deleted')
    assert.equal(await call(client, 'count', { filter }), '0')
    await client.close()
    const refused = await fetch(url, { method: 'POST', headers: { origin: 'https://elsewhere.example' } })
    assert.equal(refused.status, 403)
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
})
