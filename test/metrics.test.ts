import assert from 'node:assert/strict'
import { readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { createHttpClient } from '../src/client/http-client.ts'
import { startEmbeddingServer } from './support/embedding-server.ts'
import { temporaryDirectory } from './support/process.ts'
import { startTestService } from './support/service.ts'

/** docs/metrics.md lists exactly the metrics of /metrics. */

const page = readFileSync(join(import.meta.dirname, '../docs/metrics.md'), 'utf8')

/** The type and labels of each metric. */
async function served(): Promise<Map<string, { readonly type: string; readonly labels: Set<string> }>> {
  const found = new Map<string, { readonly type: string; readonly labels: Set<string> }>()
  await using endpoint = await startEmbeddingServer()
  await using directory = await temporaryDirectory()
  const keys = join(directory.path, 'keys')
  const line = 'write operators the-key-of-operators {"quotas":{"requests_per_second":1000}}'
  writeFileSync(keys, line, { mode: 0o600 })
  await using service = await startTestService({
    EMBEDDINGS_URL: endpoint.url,
    EMBEDDINGS_MODEL: 'letters',
    RERANK_URL: endpoint.url,
    RERANK_MODEL: 'letters',
    API_KEYS_FILE: keys,
    AUDIT: 'writes',
  })
  const point = { payload: { content_type: 'Text', content: 'x' } }
  const headers = { 'content-type': 'application/json', authorization: 'the-key-of-operators' }
  await fetch(`${service.httpUrl}/collections/docs`, { method: 'PUT', headers })
  for (const path of ['/points', '/collections/docs/points']) {
    await fetch(service.httpUrl + path, { method: 'POST', headers, body: JSON.stringify(point) })
  }
  const query = { text: 'x', similarity: 'Cosine', limit: 1, rerank: 1 }
  await fetch(`${service.httpUrl}/points/search`, { method: 'POST', headers, body: JSON.stringify(query) })
  const text = await (await fetch(`${service.httpUrl}/metrics`, { headers })).text()
  for (const [, name, type] of text.matchAll(/^# TYPE (vicinal_\S+) (\S+)$/gm)) {
    const labels = found.get(name!)?.labels ?? new Set<string>()
    for (const [, some] of text.matchAll(new RegExp(`^${name}(?:_count)?\\{(.*)\\} `, 'gm'))) {
      for (const [, label] of some!.matchAll(/(\w+)="/g)) labels.add(label!)
    }
    found.set(name!, { type: type!, labels })
  }
  return found
}

describe('the metrics', () => {
  it('are exactly those in docs/metrics.md, with type and labels', async () => {
    const figures = await served()
    const rows = [...page.matchAll(/^\| `(vicinal_\w+)` *\| (\w+) *\| (.*?) *\|/gm)].map(
      ([, name, type, labels]) =>
        [name!, { type: type!, labels: new Set(labels!.match(/\w+/g) ?? []) }] as const,
    )
    assert.deepEqual(new Map(rows), figures)

    const known = new Set([...figures].flatMap(([name, { type }]) => namesOf(name, type)))
    const named = page.match(/\bvicinal_\w+/g)!
    assert.deepEqual(
      named.filter((name) => !known.has(name)),
      [],
    )
  })

  it('count the words of a collection, and its searches by them', async () => {
    await using service = await startTestService({})
    const headers = { 'content-type': 'application/json' }
    const send = async (path: string, method: string, body: unknown): Promise<void> => {
      const { ok } = await fetch(`${service.httpUrl}${path}`, { method, headers, body: JSON.stringify(body) })
      assert.ok(ok)
    }
    await send('/collections/texts', 'PUT', { words: { paths: { content: 1 } } })
    const payload = { content_type: 'Text', content: 'bread of rye' }
    await send('/collections/texts/points', 'POST', { vector: [1], payload })
    for (const words of ['rye', 'bread']) {
      await send('/collections/texts/points/search', 'POST', { words, limit: 1 })
    }
    const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
    const figure = (name: string): number =>
      Number(text.match(new RegExp(`^vicinal_words_${name}\\{collection="texts"[^}]*\\} (\\S+)$`, 'm'))![1])
    assert.deepEqual([figure('points'), figure('waiting_points'), figure('searches')], [1, 0, 2])
    assert.ok(figure('bytes') > 0 && figure('search_seconds') > 0)
  })

  it('omit embeddings if none are configured', async () => {
    await using service = await startTestService()
    assert.doesNotMatch(await (await fetch(`${service.httpUrl}/metrics`)).text(), /embedding/)
  })

  it('have valid Prometheus alert rules', () => {
    const text = readFileSync(join(import.meta.dirname, '../docs/examples/vicinal.rules.yml'), 'utf8')
    const { groups } = parse(text) as { groups: { rules: Record<string, unknown>[] }[] }
    const rules = groups.flatMap((group) => group.rules)
    assert.ok(rules.length >= 8)
    for (const { alert, expr, annotations } of rules) {
      assert.match(alert as string, /^Vicinal\w+$/)
      assert.equal(typeof (annotations as { summary: unknown }).summary, 'string')
      const opened = (expr as string).match(/[([{]/g) ?? []
      assert.equal(opened.length, ((expr as string).match(/[)\]}]/g) ?? []).length, `${expr}`)
    }
  })

  it('count all collections in total, and name the 50 largest that are open', async () => {
    await using service = await startTestService({ MAX_MEMORY_BYTES: '1G' })
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const payload = { contentType: 'Text', content: 'x' } as const
    const vector = [1, 2]
    await client.insert({ vector, payload })
    for (let at = 1; at <= 52; at += 1) {
      await client.collections.put(`c${at}`)
      const vectors = Array.from({ length: at }, () => ({ vector, payload }))
      await client.collection(`c${at}`).insertBatch(vectors)
    }
    const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
    const figure = (name: string): number =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.slice(name.length + 1),
      )
    const labelled = (name: string): Map<string, number> =>
      new Map(
        [...text.matchAll(new RegExp(`^${name}\\{collection="([^"]+)"[^}]*\\} (\\S+)$`, 'gm'))].map(
          ([, collection, value]) => [collection!, Number(value)],
        ),
      )
    const points = labelled('vicinal_collection_points')
    assert.equal(points.size, 51)
    assert.deepEqual([points.get('c52'), points.get('c3'), points.get('c2')], [52, 3, undefined])
    assert.equal(points.get('(other)'), 1 + 2)
    for (const name of ['waiting_points', 'tombstones', 'memory_bytes', 'recall']) {
      assert.deepEqual([...labelled(`vicinal_collection_${name}`).keys()].sort(), [...points.keys()].sort())
    }
    assert.equal(labelled('vicinal_collection_recall').get('(other)'), 1)

    const all = 1 + (52 * 53) / 2
    assert.equal(figure('vicinal_points'), 1)
    assert.equal(figure('vicinal_stored_points'), all)
    assert.equal(figure('vicinal_memory_max_bytes'), 1024 ** 3)
    const named = [...labelled('vicinal_collection_memory_bytes').values()].reduce(
      (sum, each) => sum + each,
      0,
    )
    assert.ok(figure('vicinal_memory_bytes') > named, 'includes the default collection')
    const stats = await fetch(`${service.httpUrl}/stats`)
    const { all_collections: totals } = (await stats.json()) as { all_collections: unknown }
    assert.deepEqual(totals, {
      collections: 53,
      open: 53,
      damaged: 0,
      points: all,
      waiting: 0,
      tombstones: 0,
      memory_bytes: figure('vicinal_memory_bytes'),
      memory_bytes_max: 1024 ** 3,
    })
  })

  it('show the running version and the free disk space', async () => {
    await using service = await startTestService()
    const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
    const labels = `version="${version}",node="${process.versions.node}",platform="${process.platform}"`
    assert.ok(text.includes(`vicinal_build_info{${labels},arch="${process.arch}",simd="`))
    const free = Number(/^vicinal_disk_free_bytes (\S+)$/m.exec(text)![1])
    const { blocks, bsize } = statfsSync(service.dataDir)
    assert.ok(free > 0 && free < blocks * bsize)
    // Nothing is measured yet, and every search is a scan.
    for (const metric of ['Euclidean', 'Manhattan', 'Hamming', 'Cosine']) {
      assert.match(text, new RegExp(`^vicinal_index_recall\\{metric="${metric}"\\} 1$`, 'm'))
    }
  })
})

function namesOf(name: string, type: string): string[] {
  return type === 'histogram' ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]
}
