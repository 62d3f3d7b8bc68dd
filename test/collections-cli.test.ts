import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createHttpClient, type VectorClient } from '../src/client/index.ts'
import { assertEnded, type Ended, run, temporaryDirectory } from './support/process.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** Collections with the real command line, against a real service. */

function linesOf(contents: readonly string[]): string {
  return contents
    .map((content, n) => `${JSON.stringify({ vector: [n, 1], content, attributes: { n } })}\n`)
    .join('')
}

describe('vicinal with collections', () => {
  let directory: AsyncDisposable & { readonly path: string }
  let server: TestService
  let client: VectorClient

  before(async () => {
    directory = await temporaryDirectory()
    server = await startTestService()
    client = createHttpClient({ baseUrl: server.httpUrl })
  })
  after(async () => {
    await server?.[Symbol.asyncDispose]()
    await directory?.[Symbol.asyncDispose]()
  })

  function path(name: string): string {
    return join(directory.path, name)
  }

  function file(name: string, content: string): string {
    writeFileSync(path(name), content)
    return path(name)
  }

  function overGrpc(...args: readonly string[]): Promise<Ended> {
    return run([...args, '--grpc', server.grpcAddress, '--api-key', apiKey])
  }

  function overHttp(...args: readonly string[]): Promise<Ended> {
    return run([...args, '--http', server.httpUrl])
  }

  async function contentsOf(collection: string): Promise<string[]> {
    const points = client.collection(collection)
    const ids = await points.search({ vector: [0, 0], metric: 'Euclidean', limit: 1000 })
    const found = await Promise.all(ids.map((id) => points.get(id)))
    return found.map(({ payload }) => payload.content).sort()
  }

  it('searches by words that an import declares', async () => {
    const create = ['collections', 'create', 'texts']
    assertEnded(await overHttp(...create, '--words', 'content', '--language', 'english', '--k1', '1.5'), 0)
    const input = file('texts.jsonl', linesOf(['anadama bread', 'rye flour', 'sour dough bread']))
    const target = ['--collection', 'texts']
    const imported = await overGrpc('import', input, ...target, '--words-paths', 'content=2,title=3')
    assert.match(imported.stdout, /^3 points/, imported.stderr)
    const { words } = await client.collections.get('texts')
    assert.deepEqual(words, { language: 'english', paths: { content: 2, title: 3 }, k1: 1.5 })
    for (const vicinal of [overGrpc, overHttp]) {
      const found = await vicinal('query', ...target, '--words', 'rye bread', '--json')
      assert.match(found.stdout, /"score":1,/, found.stderr)
      assert.equal(found.stdout.trim().split('\n').length, 3)
      const both = await vicinal('query', ...target, '--words', 'dough', '--vector', '2,1', '--limit', '1')
      assert.match(both.stdout, /sour dough bread/, both.stderr)
      const boost = '{"filter":{"content":{"$match":"rye"}},"weight":1}'
      const shape = ['--boost', boost, '--group-by', 'n', '--group-size', '2', '--diversity', '0']
      const shaped = await vicinal('query', ...target, '--words', 'bread flour', ...shape, '--json')
      assert.match(
        shaped.stdout,
        /^\{"id":"[^"]+","score":\S+"group":\d,"payload":.*rye flour/,
        shaped.stderr,
      )
      const ids = [...shaped.stdout.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id!)
      const like = ['--like', ids[0]!, ids[1]!, '--unlike', ids[2]!, '--metric', 'Euclidean']
      const near = await vicinal('query', ...target, ...like)
      assert.deepEqual([near.code, near.stdout], [0, ''], near.stderr)
      const alone = await vicinal('query', ...target, '--words', 'x', '--group-size', '2')
      assert.match(alone.stderr, /--group-size needs --group-by/)
      const pages = ['query', ...target, '--words', 'bread', '--limit', '1', '--highlight']
      const first = await vicinal(...pages, '--cursor')
      assert.match(first.stdout, /anadama bread\n {5}content: anadama \[bread\]\n$/, first.stderr)
      const [, cursor] = /^next page: (--cursor=\S+)/.exec(first.stderr)!
      const second = await vicinal(...pages, cursor!)
      assert.match(second.stdout, /content: sour dough \[bread\]\n$/, second.stderr)
      const none = await vicinal('query', ...target, '--words', 'absent')
      assert.match(none.stderr, /^nothing found in the collection texts/)
    }
    const wrong = await overHttp('import', input, ...target, '--words-paths', 'content=x', '--again')
    assert.match(wrong.stderr, /--words-paths content=x: a path and perhaps a weight above 0/)
    assertEnded(await overGrpc(...create, '--no-words'), 0)
    assert.equal((await client.collections.get('texts')).words, undefined)
    assert.match((await overHttp(...create, '--b', '0.5')).stderr, /--b needs --words/)
  })

  for (const [transport, vicinal] of [
    ['gRPC', overGrpc],
    ['HTTP', overHttp],
  ] as const) {
    const name = `made-over-${transport.toLowerCase()}`

    it(`creates, lists, renames and deletes collections over ${transport}`, async () => {
      const settings = ['--dimension', '2', '--hnsw-m', '8', '--hnsw-ef-construction', '50']
      const create = ['collections', 'create', name, ...settings]
      assert.deepEqual(await vicinal(...create), { code: 0, stdout: `created ${name}\n`, stderr: '' })
      assert.match((await vicinal(...create)).stdout, /made-over-\w+ already exists with these settings/)
      const other = await vicinal('collections', 'create', name, '--dimension', '3')
      assertEnded(other, 1, /the collection made-over-\w+ exists, and its dimension is 2, not 3/)

      const alias = await vicinal('collections', 'alias', `${name}-alias`, name)
      assert.deepEqual(alias, { code: 0, stdout: `${name}-alias refers to ${name}\n`, stderr: '' })
      const table = (await vicinal('collections', 'list')).stdout
      assert.match(table, /^name +points +dimension +m +ef_construction +aliases\n/)
      assert.match(table, new RegExp(`^${name} +0 +2 +8 +50 +${name}-alias$`, 'm'))
      assert.match(table, /^default +0 +- +\d+ +\d+$/m)
      const lines = (await vicinal('collections', 'list', '--json')).stdout.trimEnd().split('\n')
      assert.deepEqual(
        lines.map((line) => JSON.parse(line)).find((each) => each.name === name),
        {
          name,
          dimension: 2,
          points: 0,
          hnsw: { m: 8, ef_construction: 50 },
          aliases: [`${name}-alias`],
        },
      )

      assertEnded(await vicinal('collections', 'unalias', `${name}-alias`), 0)
      assert.deepEqual((await client.collections.get(name)).aliases, [])
      assertEnded(await vicinal('collections', 'delete', name), 2, /with all its points: .*--yes/)
      assert.equal((await client.collections.get(name)).name, name)
      assertEnded(await vicinal('collections', 'delete', name, '--yes'), 0)
      await assert.rejects(client.collections.get(name), { reason: 'collection_not_found' })
      assertEnded(await vicinal('collections', 'delete', name, '--yes'), 1, /no collection or alias is named/)
    })

    it(`stores, finds, gets and deletes points of collections over ${transport}`, async () => {
      await client.collections.put(name)
      const of = ['--collection', name]
      const ids = path(`${name}.ids`)
      const points = file(`${name}.jsonl`, linesOf(['a', 'b', 'c']))
      assertEnded(await vicinal('import', points, '--ids', ids, ...of), 0)
      const [first] = readFileSync(ids, 'utf8').split('\n')
      assert.match((await vicinal('query', '--like', first!, ...of)).stdout, /^ +1 {2}\S+ {2}a\n/)
      assert.equal(JSON.parse((await vicinal('get', first!, ...of)).stdout).payload.content, 'a')
      assertEnded(await vicinal('get', first!), 1, /Point not found/)
      assertEnded(await vicinal('delete', first!, ...of), 0)
      assert.deepEqual(await contentsOf(name), ['b', 'c'])
      assert.equal((await client.collections.get('default')).points, 0)
      await client.collections.delete(name)
    })
  }

  it('reads the collection from the environment, overridden by the option', async () => {
    await client.collections.put('of-environment')
    await client.collections.put('of-option')
    const http = ['--http', server.httpUrl]
    const environment = { VICINAL_COLLECTION: 'of-environment' }
    const points = file('environment.jsonl', linesOf(['x']))
    assertEnded(await run(['import', points, ...http], environment), 0)
    const option = ['--collection', 'of-option', '--journal', path('option.journal')]
    assertEnded(await run(['import', points, ...http, ...option], environment), 0)
    assert.deepEqual(await contentsOf('of-environment'), ['x'])
    assert.deepEqual(await contentsOf('of-option'), ['x'])
    const empty = await run(['query', '--vector', '1,2', ...http, '--collection', 'default'], environment)
    assertEnded(empty, 0, /nothing found: the database is empty/)
  })

  it('names an invalid collection name, and one that does not exist', async () => {
    const wrong = await overHttp('query', '--vector', '1', '--collection', 'No')
    assertEnded(wrong, 2, /--collection: "No" cannot be the name of a collection: 1 to 63 of a-z/)
    const variable = { VICINAL_COLLECTION: '../points' }
    const byVariable = await run(['query', '--vector', '1', '--http', server.httpUrl], variable)
    assertEnded(byVariable, 2, /VICINAL_COLLECTION: "\.\.\/points" cannot be/)
    const missing = ['--collection', 'missing']
    assertEnded(await overGrpc('query', '--vector', '1', ...missing), 1, /named missing/)
    const points = file('missing.jsonl', linesOf(['x']))
    assertEnded(await overHttp('import', points, ...missing), 1, /named missing/)
    assert.ok(!existsSync(`${points}.vicinal-import`))
    assertEnded(await overHttp('stats', ...missing), 1, /named missing/)
    assertEnded(
      await overHttp('export', ...missing),
      1,
      /answered 404: no collection or alias is named missing/,
    )
  })

  it('does not continue an import in another collection', async () => {
    for (const name of ['left', 'right']) await client.collections.put(name)
    const points = file('cut.jsonl', `${linesOf(['a', 'b'])}no JSON\n`)
    const into = (collection: string): Promise<Ended> =>
      overHttp('import', points, '--batch-size', '1', '--collection', collection)
    assertEnded(await into('left'), 1, /2 points are stored; the same command continues after them/)
    assertEnded(
      await into('right'),
      2,
      /begun into collection left of http:\S+, not collection right of http:/,
    )
    assertEnded(await overHttp('import', points), 2, /begun into collection left of http:\S+, not http:/)
    writeFileSync(points, linesOf(['a', 'b', 'c']))
    assertEnded(await into('left'), 0, /continuing after record 2/)
    const refused =
      /was already imported into collection left of http:\S+: 3 points.* --again imports it into collection right of http:\S+ too/
    assertEnded(await into('right'), 2, refused)
    assert.deepEqual(await contentsOf('left'), ['a', 'b', 'c'])
    assert.deepEqual(await contentsOf('right'), [])
  })

  it('identifies an import into an alias by its collection, wherever the alias moves', async () => {
    for (const name of ['old', 'new']) await client.collections.put(name)
    await client.collections.setAliases({ set: { current: 'old' } })
    const points = file('alias.jsonl', `${linesOf(['a'])}no JSON\n`)
    const into = (collection: string): Promise<Ended> =>
      overHttp('import', points, '--batch-size', '1', '--collection', collection)
    assertEnded(await into('current'), 1, /1 points are stored/)
    await client.collections.setAliases({ set: { current: 'new' } })
    assertEnded(await into('current'), 2, /begun into collection old of http:\S+, not collection new of/)
    writeFileSync(points, linesOf(['a', 'b']))
    assertEnded(await into('old'), 0, /continuing after record 1/)
    assert.deepEqual(await contentsOf('old'), ['a', 'b'])
    assert.equal((await client.collections.get('new')).points, 0)
  })

  it('exports a collection, and takes a snapshot of it, over HTTP', async () => {
    const contents = ['one', 'two', 'three']
    await client.collections.put('copied')
    await client
      .collection('copied')
      .insertBatch(
        contents.map((content, index) => ({ vector: [index, 0], payload: { contentType: 'Text', content } })),
      )
    const of = ['--collection', 'copied']
    const exported = await overHttp('export', ...of)
    assertEnded(exported, 0, /^3 points\n$/)
    const lines = exported.stdout.trimEnd().split('\n')
    assert.deepEqual(lines.map((line) => JSON.parse(line).content).sort(), [...contents].sort())

    const snapshots = await temporaryDirectory()
    try {
      const created = await overHttp('snapshot', 'create', snapshots.path, ...of)
      assertEnded(created, 0)
      const [name] = readdirSync(snapshots.path)
      assert.match(name!, /^vicinal-copied-[\w-]+-\d+\.snapshot$/)
      const restored = path('restored')
      assertEnded(await run(['snapshot', 'restore', join(snapshots.path, name!), '--data-dir', restored]), 0)
      const again = await run(['export', '--data-dir', restored])
      assert.deepEqual(again.stdout.split('\n').sort(), exported.stdout.split('\n').sort())
    } finally {
      await snapshots[Symbol.asyncDispose]()
    }
  })

  it('shows the figures of a collection next to those of the service', async () => {
    await client.collections.put('counted', { dimension: 3, hnsw: { m: 7, efConstruction: 70 } })
    await client.collections.setAliases({ set: { 'counted-alias': 'counted' } })
    const { stdout } = await overHttp('stats', '--collection', 'counted-alias', '--json')
    const figures = JSON.parse(stdout)
    assert.deepEqual(
      ['state', 'collection', 'collection_points', 'collection_dimension'].map((name) => figures[name]),
      ['ready', 'counted', 0, 3],
    )
    assert.deepEqual([figures.collection_hnsw_m, figures.collection_hnsw_ef_construction], [7, 70])
    const ofIndex = ['linked', 'waiting', 'tombstones', 'settling', 'graphs_Cosine_distance_source']
    const ofSearches = ['Cosine_plan', 'Hamming_recall', 'Hamming_filtered_0.1-0.3_recall']
    assert.deepEqual(
      [...ofIndex, ...ofSearches.map((name) => `searches_${name}`)].map(
        (name) => figures[`collection_${name}`],
      ),
      [0, 0, 0, false, null, 'scan', 1, 1],
    )
    assert.equal(JSON.parse((await overHttp('stats', '--json')).stdout).collection, undefined)
  })
})

describe('the help on collections', () => {
  it('names every subcommand, and the option for every command on points', async () => {
    const { code, stdout } = await run(['collections', '--help'])
    assert.equal(code, 0)
    for (const name of ['list', 'create', 'delete', 'alias', 'unalias']) {
      assert.match(stdout, new RegExp(`^ {2}${name} `, 'm'))
    }
    const commands = [
      ['import'],
      ['query'],
      ['get'],
      ['delete'],
      ['export'],
      ['stats'],
      ['snapshot', 'create'],
    ]
    for (const command of commands) {
      const help = await run([...command, '--help'])
      assert.match(help.stdout, /--collection <name> .*\(env:\s+VICINAL_COLLECTION/s, command.join(' '))
    }
    assert.doesNotMatch((await run(['collections', 'list', '--help'])).stdout, /--collection/)
  })

  it('is shown without a subcommand; missing and invalid arguments are reported', async () => {
    assertEnded(await run(['collections']), 2, /Usage: vicinal collections/)
    assertEnded(await run(['collections', 'alias', 'a']), 2, /missing required argument 'name'/)
    const wrong = ['collections', 'create', 'a', '--dimension', '0']
    assertEnded(await run(wrong), 2, /--dimension <n>' argument '0' is invalid.*at least 1/)
  })
})
