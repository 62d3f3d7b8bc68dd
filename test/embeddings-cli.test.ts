import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Desk } from './support/desk.ts'
import {
  type EmbeddingServer,
  failure,
  lettersOf,
  startEmbeddingServer,
  vectorOf,
} from './support/embedding-server.ts'
import { assertEnded, run, ServerProcess, temporaryDirectory } from './support/process.ts'
import { vicinal } from './support/programs.ts'

/** The command line and the MCP server with texts instead of vectors. */
describe('vicinal, with an embedding endpoint', () => {
  let endpoint: EmbeddingServer
  let desk: Desk

  before(async () => {
    endpoint = await startEmbeddingServer()
    desk = await Desk.open({ EMBEDDINGS_URL: endpoint.url, EMBEDDINGS_MODEL: 'letters' })
  })
  after(async () => {
    await desk[Symbol.asyncDispose]()
    await endpoint[Symbol.asyncDispose]()
  })

  it('imports records without vectors from JSON lines and CSV, and finds them by text', async () => {
    const lines = [
      { content: 'aaa' },
      { content: 'bbb', vector: [0, 9, 0, 1] },
      { content: 'caption', id: 'x' },
    ]
    const json = desk.file('texts.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    const csv = desk.file('texts.csv', 'content,shelf\nccc,3\nabc,4\n')
    assertEnded(await desk.vicinal('import', json, '--embed'), 0)
    assertEnded(await desk.vicinal('import', csv, '--embed'), 0)
    assert.equal(await desk.client.count(), 5)
    for (const transport of [desk.overGrpc, desk.overHttp]) {
      const found = await run([
        'query',
        '--text',
        'cc',
        '--metric',
        'Euclidean',
        '--limit',
        '1',
        '--json',
        ...transport,
      ])
      assertEnded(found, 0)
      const { id, payload } = JSON.parse(found.stdout) as { id: string; payload: object }
      assert.deepEqual(payload, { content_type: 'Text', content: 'ccc', attributes: { shelf: 3 } })
      assert.deepEqual([...(await desk.client.get(id)).vector], vectorOf('ccc'))
    }
    const own = await desk.client.search({ vector: [0, 9, 0, 1], metric: 'Euclidean', limit: 1 })
    assert.deepEqual([...(await desk.client.get(own[0]!)).vector], [0, 9, 0, 1])
  })

  it('refuses records without vectors unless told to embed them', async () => {
    const json = desk.file('plain.jsonl', '{"content":"a"}\n')
    assertEnded(await desk.vicinal('import', json), 2, /plain\.jsonl: it has no column vector or embedding/)
    const csv = desk.file('plain.csv', 'content\na\n')
    assertEnded(await desk.vicinal('import', csv), 2, /has no column vector or embedding/)
  })

  it('names the record whose text cannot be embedded', async () => {
    const json = desk.file('blank.jsonl', '{"content":"a"}\n{"content":" "}\n{"content":"bc"}\n')
    assertEnded(await desk.vicinal('import', json, '--embed'), 1, /blank\.jsonl:2: payload\.content is blank/)
    const stored = await desk.vicinal('import', json, '--embed', '--skip-invalid')
    assertEnded(stored, 0, /blank\.jsonl:2/)
    assert.match(stored.stdout, /^2 points .*1 bad records skipped/)
  })

  it('puts and changes a point by its text', async () => {
    const id = randomUUID()
    assertEnded(await desk.vicinal('put', id, '--content', 'ab'), 0)
    assert.deepEqual([...(await desk.client.get(id)).vector], vectorOf('ab'))
    assertEnded(await desk.vicinal('set', id, '--text', 'cab'), 0)
    assert.deepEqual([...(await desk.client.get(id)).vector], vectorOf('cab'))
    const both = await desk.vicinal('put', id, '--content', 'ab', '--text', 'a', '--vector', '1,2')
    assertEnded(both, 2, /'--vector <numbers>' cannot be used with option '--text <text>'/)
  })

  it('lets language models describe, store and search by text', async () => {
    const client = new Client({ name: 'test', version: '1' })
    const args = [vicinal, 'mcp', '--write', ...desk.overHttp]
    await client.connect(new StdioClientTransport({ command: process.execPath, args }))
    const call = async (name: string, values: Record<string, unknown> = {}): Promise<string> => {
      const { content } = await client.callTool({ name, arguments: values })
      return (content as { text: string }[])[0]!.text
    }
    assert.match(await call('describe'), /"embeddingModel":"letters"/)
    const stored = await call('upsert', { content: 'abcabcabc' })
    const described = await call('upsert', { content: 'a picture', content_type: 'Image', text: 'cccccccc' })
    const near = { metric: 'Euclidean', limit: 1 }
    assert.ok((await call('search', { text: 'abcabcab', ...near })).includes(stored))
    assert.ok((await call('search', { text: 'ccccccc', ...near })).includes(described))
    await client.close()
  })

  it('serves with the settings of an endpoint, and does not log its key', async () => {
    await using directory = await temporaryDirectory()
    const settings = {
      EMBEDDINGS_URL: endpoint.url,
      EMBEDDINGS_MODEL: 'letters',
      EMBEDDINGS_API_KEY: 'sk-secret',
    }
    await using server = await ServerProcess.start(directory.path, { ...settings, LOG_LEVEL: 'debug' })
    assertEnded(await run(['put', randomUUID(), '--content', 'a', '--http', server.httpUrl]), 0)
    assert.equal(endpoint.requests.at(-1)!.authorization, 'Bearer sk-secret')
    assert.match(server.command.stdout, /"EMBEDDINGS_API_KEY":"set"/)
    endpoint.respond = ({ authorization }) => failure(401, `wrong key: ${authorization}`)
    const refused = ['put', randomUUID(), '--content', 'b', '--http', server.httpUrl]
    for (const each of [refused, refused]) assertEnded(await run(each), 1, /refuses the key \(401\)/)
    endpoint.respond = lettersOf
    assertEnded(await run(refused), 0)
    await server.command.says(
      /"outcome":"unauthorized","msg":"the embedding endpoint fails[\s\S]*"msg":"the embedding endpoint answers again"/,
    )
    assert.equal(server.command.stdout.match(/the embedding endpoint fails/g)!.length, 1)
    assert.doesNotMatch(server.command.stdout + server.command.stderr, /sk-secret/)
    const alone = await run(['serve'], { EMBEDDINGS_MODEL: 'letters', DATA_DIR: directory.path })
    assertEnded(alone, 2, /EMBEDDINGS_MODEL is set, but EMBEDDINGS_URL is not/)
  })
})
