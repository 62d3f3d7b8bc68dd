import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { parquetMetadata } from 'hyparquet'
import {
  createHttpClient,
  DateTime,
  GeoPoint,
  type PointToInsert,
  type VectorClient,
} from '../src/client/index.ts'
import { run, temporaryDirectory } from './support/process.ts'
import { vicinal } from './support/programs.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { startTestService, type TestService } from './support/service.ts'

const dimension = 9

/** Numbers and texts that careless serialization would change. */
const awkwardNumbers = [
  -0,
  1.401298464324817e-45,
  -1.1754942106924411e-38,
  3.4028234663852886e38,
  0.10000000149011612,
  1 / 3,
  16_777_217,
  1e21,
  1e-7,
]
const awkwardTexts = [
  '',
  '\n',
  '\r\n"\\',
  '\u2028\u2029\u0085',
  '\u0000\u001f\u007f',
  '\ufeff',
  '🦊 ü',
  '{"id":1}',
  ' ',
]

async function fill(client: VectorClient): Promise<string[]> {
  const random = seededRandom(61)
  const points: PointToInsert[] = awkwardTexts.map((content, index) => ({
    vector: Float32Array.from(awkwardNumbers, (_, at) => awkwardNumbers[(at + index) % dimension]!),
    payload: { contentType: index % 2 === 0 ? 'Text' : 'Image', content },
  }))
  for (let count = 0; count < 60; count += 1) {
    const vector = Float32Array.from(
      randomVector(random, dimension, 'continuous'),
      (value) => value * 10 ** (random() * 70 - 38),
    )
    points.push({ vector, payload: { contentType: 'Text', content: `row ${count}` } })
  }
  return [...(await client.insertBatch(points))]
}

function pointsWithAttributes(): PointToInsert[] {
  const vector = Float32Array.from({ length: dimension }, () => 1)
  const attributes = {
    name: '\ufeffü "x"',
    price: 1e300,
    tiny: 5e-324,
    open: false,
    at: new DateTime(1_700_000_000_123_456),
    place: new GeoPoint(-90, 179.5),
    list: [1, 'a', { deep: [true] }],
  }
  return [
    { vector, payload: { contentType: 'Text', content: 'a', attributes } },
    {
      vector,
      payload: { contentType: 'Text', content: 'b', expiresAt: new DateTime(4_102_444_800_000_001) },
    },
    // Each of these ends a row group.
    { vector, payload: { contentType: 'Image', content: 'x'.repeat(9_000_000) } },
    { vector, payload: { contentType: 'Image', content: 'y'.repeat(9_000_000) } },
  ]
}

interface Line {
  readonly id: string
  readonly vector: readonly number[]
  readonly content_type: string
  readonly content: string
}

function linesOf(text: string): Line[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

/** A point without its id as one string, the vector by its bits. */
async function contentsOf(client: VectorClient, ids: readonly string[]): Promise<string[]> {
  const points = await Promise.all(ids.map((id) => client.get(id)))
  return points
    .map(({ vector, payload }) =>
      JSON.stringify([
        Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('hex'),
        payload,
      ]),
    )
    .sort()
}

async function imported(file: string, ids: string, { httpUrl }: TestService): Promise<string[]> {
  const ended = await run(['import', file, '--http', httpUrl, '--ids', ids])
  assert.equal(ended.code, 0, ended.stderr)
  return readFileSync(ids, 'utf8').trimEnd().split('\n')
}

describe('export', () => {
  it('writes files that import restores bit by bit, under new ids', async () => {
    await using service = await startTestService()
    await using directory = await temporaryDirectory()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const ids = await fill(client)
    const file = join(directory.path, 'points.jsonl')
    const exported = await run(['export', file, '--http', service.httpUrl])
    assert.deepEqual([exported.code, exported.stderr, exported.stdout], [0, '', '69 points, sequence 69\n'])
    assert.equal(statSync(file).mode & 0o777, 0o600)

    const lines = linesOf(readFileSync(file, 'utf8'))
    assert.deepEqual(lines.map(({ id }) => id).sort(), ids.toSorted())
    assert.deepEqual(Object.keys(lines[0]!), ['id', 'vector', 'content_type', 'content'])
    for (const { id, vector, content_type, content } of lines) {
      const point = await client.get(id)
      assert.deepEqual(point.vector, Float32Array.from(vector))
      assert.deepEqual(point.payload, { contentType: content_type, content })
    }

    await using other = await startTestService()
    const newIds = await imported(file, join(directory.path, 'ids'), other)
    assert.equal(newIds.length, ids.length)
    assert.ok(newIds.every((id) => !ids.includes(id)))
    const otherClient = createHttpClient({ baseUrl: other.httpUrl })
    assert.deepEqual(await contentsOf(otherClient, newIds), await contentsOf(client, ids))
  })

  it('writes Parquet in row groups that import restores, with ids, attributes and expiry', async () => {
    await using service = await startTestService()
    await using directory = await temporaryDirectory()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const ids = [...(await fill(client)), ...(await client.insertBatch(pointsWithAttributes()))]
    const file = join(directory.path, 'points.parquet')
    const exported = await run(['export', file, '--http', service.httpUrl])
    assert.deepEqual([exported.code, exported.stderr, exported.stdout], [0, '', '73 points, sequence 73\n'])
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const groups = parquetMetadata(new Uint8Array(readFileSync(file)).buffer).row_groups
    assert.ok(groups.length > 1, 'two contents of 9 MB must not share a row group')

    await using other = await startTestService()
    const otherClient = createHttpClient({ baseUrl: other.httpUrl })
    const kept = await run(['import', file, '--http', other.httpUrl, '--keep-ids'])
    assert.equal(kept.code, 0, kept.stderr)
    assert.deepEqual(await contentsOf(otherClient, ids), await contentsOf(client, ids))
    const lines = await Promise.all(
      [service, other].map(({ httpUrl }) => run(['export', '-', '--http', httpUrl])),
    )
    const [before, after] = lines.map(({ stdout }) => stdout.split('\n').sort())
    assert.deepEqual(after, before)

    const piped = join(directory.path, 'piped.parquet')
    const command = `"$0" "$@" > "${piped}"`
    const args = [vicinal, 'export', '--format', 'parquet', '--http', service.httpUrl]
    await promisify(execFile)('sh', ['-c', command, process.execPath, ...args])
    assert.deepEqual(readFileSync(piped), readFileSync(file))
  })

  it('writes a Parquet file without points, which import reads', async () => {
    await using service = await startTestService()
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'points.parquet')
    assert.equal((await run(['export', file, '--http', service.httpUrl])).code, 0)
    const ended = await run(['import', file, '--http', service.httpUrl])
    assert.deepEqual([ended.code, ended.stderr], [0, ''])
    assert.match(ended.stdout, /^0 points/)
  })

  it('also reads the data directory of a stopped service, and writes to standard output', async () => {
    await using service = await startTestService()
    await using directory = await temporaryDirectory()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    await fill(client)
    const file = join(directory.path, 'points.jsonl')
    const inUse = await run(['export', file, '--data-dir', service.dataDir])
    assert.equal(inUse.code, 1)
    assert.match(inUse.stderr, /is in use by process/)
    const running = await run(['export', '--http', service.httpUrl])
    await service.service.close()
    const stopped = await run(['export', '-', '--data-dir', service.dataDir])
    assert.deepEqual([stopped.code, stopped.stderr], [0, '69 points\n'])
    assert.equal(linesOf(stopped.stdout).length, 69)
    assert.equal(stopped.stdout, running.stdout)
    assert.deepEqual(readdirSync(directory.path), [])
  })

  it('overwrites no file, and reports conflicting options', async () => {
    await using directory = await temporaryDirectory()
    const existing = await run(['export', import.meta.filename])
    assert.deepEqual(
      [existing.code, existing.stderr],
      [2, `vicinal: ${import.meta.filename} already exists\n`],
    )
    const table = await run(['export', join(directory.path, 'out.csv'), '--http', 'http://127.0.0.1:1'])
    assert.equal(table.code, 2)
    assert.match(table.stderr, /export writes \.jsonl and \.parquet files, not \.csv/)
    const both = await run(['export', '--data-dir', directory.path, '--http', 'http://127.0.0.1:1'])
    assert.deepEqual([both.code, both.stderr], [2, 'vicinal: --http and --data-dir exclude each other\n'])
    const nobody = await run(['export', join(directory.path, 'points'), '--http', 'http://127.0.0.1:1'])
    assert.equal(nobody.code, 1)
    assert.match(nobody.stderr, /no answer from http:\/\/127\.0\.0\.1:1: is the service running/)
    assert.deepEqual(readdirSync(directory.path), [])
  })
})
