import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { hashPoint } from '../src/base/point-hash.ts'
import { Progress } from '../src/cli/import-run.ts'
import { createHttpClient, type Point, type VectorClient } from '../src/client/index.ts'
import { defaultText } from '../src/settings/kinds.ts'
import { settings } from '../src/settings/table.ts'
import { Desk } from './support/desk.ts'
import { freePort } from './support/free-ports.ts'
import {
  assertEnded,
  Command,
  compileCache,
  run,
  ServerProcess,
  temporaryDirectory,
} from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { apiKey } from './support/service.ts'
import { until } from './support/until.ts'

/** The real command line against a real service. */

interface Line {
  readonly vector: readonly number[]
  readonly content: string
}

/** `count` points on a line, each with a different content. */
function linesOf(count: number): Line[] {
  return Array.from({ length: count }, (_, index) => ({ vector: [index, 1], content: `point ${index}` }))
}

function jsonLines(lines: readonly unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** All stored points, nearest to the origin first. */
async function allPoints(client: VectorClient): Promise<Point[]> {
  const ids = await client.search({ vector: [0, 0], metric: 'Euclidean', limit: 16_384, ef: 16_384 })
  const points: Point[] = []
  for (let first = 0; first < ids.length; first += 50) {
    points.push(...(await Promise.all(ids.slice(first, first + 50).map((id) => client.get(id)))))
  }
  return points
}

async function contentsIn(client: VectorClient): Promise<string[]> {
  const contents: string[] = []
  for await (const { payload } of client.listAll({ include: { payload: true } }))
    contents.push(payload?.content ?? '')
  return contents.sort()
}

async function pointsStored(httpUrl: string): Promise<number> {
  const metrics = await (await fetch(`${httpUrl}/metrics`)).text()
  return Number(/^vicinal_points (\d+)/m.exec(metrics)?.[1])
}

function idsIn(path: string): string[] {
  return readFileSync(path, 'utf8').trim().split('\n')
}

/**
 * Resets the journal of an import of `linesOf` to its state after a kill: the records up to `done` are stored, and the
 * batches that end at the records `sent` were sent but not answered.
 */
function asIfKilled(
  file: string,
  { done, sent, sentMs = Date.now() }: { done: number; sent: readonly number[]; sentMs?: number },
): void {
  const path = `${file}.vicinal-import`
  const state = JSON.parse(readFileSync(path, 'utf8')) as { readonly done: object }
  const digestOf = (after: number, end: number): string => {
    const hash = createHash('sha256')
    for (const { vector, content } of linesOf(end).slice(after)) {
      hashPoint(hash, { vector: Float32Array.from(vector), payload: { contentType: 'Text', content } })
    }
    return hash.digest('hex')
  }
  const batches = sent.map((end, index) => {
    const after = sent[index - 1] ?? done
    return { after, end, digest: digestOf(after, end), sentMs }
  })
  const idsBytes = done * `${randomUUID()}\n`.length
  const doneState = { records: done, points: done, digest: digestOf(0, done), idsBytes }
  writeFileSync(path, JSON.stringify({ ...state, done: { ...state.done, ...doneState }, sent: batches }))
}

describe('vicinal import', () => {
  it('stores JSON lines over either transport and prints a summary', async () => {
    await using desk = await Desk.open()
    const lines = [{ vector: [1, 0], content: 'a', content_type: 'Image' }, ...linesOf(1200)]
    const file = desk.file('points.jsonl', `\ufeff${jsonLines(lines)}\r\n\n`)
    const ended = await desk.vicinal('import', file, '--ids', desk.path('ids'))
    assertEnded(ended, 0)
    assert.match(ended.stdout, /^1201 points in \d+\.\d s \(\d+ points\/s, \d+\.\d MB\/s of vectors\)\n$/)
    const ids = (await readFile(desk.path('ids'), 'utf8')).trim().split('\n')
    assert.equal(ids.length, 1201)
    assert.equal((await desk.client.get(ids[0]!)).payload.contentType, 'Image')
    assert.equal((await desk.client.get(ids[1200]!)).payload.content, 'point 1199')

    const child = new Command(['import', '-', ...desk.overHttp])
    child.child.stdin.end(jsonLines([{ vector: [-5, 0], content: 'piped' }]))
    assert.match((await child.ended).stdout, /^1 points/)
    const [nearest] = await desk.client.search({ vector: [-5, 0], metric: 'Euclidean', limit: 1 })
    assert.equal((await desk.client.get(nearest!)).payload.content, 'piped')
  })

  it('includes attributes in the request size, over either transport', async () => {
    await using desk = await Desk.open({ MAX_REQUEST_BYTES: '12M' })
    const lines = linesOf(220).map((line) => ({ ...line, attributes: { text: 'x'.repeat(60_000) } }))
    for (const [at, transport] of [desk.overGrpc, desk.overHttp].entries()) {
      const file = desk.file(`${at}.jsonl`, jsonLines(lines))
      assertEnded(await run(['import', file, '--batch-size', '1000', ...transport]), 0)
      assert.equal(await desk.client.count(), 220 * (at + 1))
    }
  })

  it('accepts only \\n and \\r\\n as line ends, and reads lines longer than one read', async () => {
    await using desk = await Desk.open()
    const contents = [
      '\u2028 in the middle \u2029',
      '\u0085',
      '\v\f',
      'x'.repeat(200_000),
      'ü'.repeat(100_000),
    ]
    const lines = contents.map((content, index) => JSON.stringify({ vector: [index, 1], content }))
    assert.ok(lines[0]!.includes('\u2028'), 'JSON does not escape it')
    for (const end of ['\n', '\r\n']) {
      const file = desk.file(`lines-${end.length}.jsonl`, `\ufeff${lines.join(`${end}${end}`)}`)
      const ids = desk.path(`ids-${end.length}`)
      assertEnded(await desk.vicinal('import', file, '--ids', ids), 0)
      const stored = (await readFile(ids, 'utf8')).trim().split('\n')
      const read = await Promise.all(stored.map((id) => desk.client.get(id)))
      assert.deepEqual(
        read.map(({ payload }) => payload.content),
        contents,
      )
    }
  })

  it('names lines that are not UTF-8 or are too long for any point', async () => {
    await using desk = await Desk.open()
    const good = Buffer.from('{"vector":[1,2],"content":"x"}\n')
    const bad = Buffer.concat([good, Buffer.from([0x22, 0xff, 0x22, 0x0a])])
    const file = desk.path('bad.jsonl')
    writeFileSync(file, bad)
    assertEnded(await desk.vicinal('import', file), 1, /bad\.jsonl:2: not UTF-8/)
    const long = desk.path('long.jsonl')
    writeFileSync(long, Buffer.concat([good, Buffer.alloc(64 * 1024 * 1024 + 1, 'x')]))
    assertEnded(
      await desk.vicinal('import', long),
      1,
      /long\.jsonl:2: the line is longer than 67108864 bytes/,
    )
  })

  it('stores rows of .fvecs, float32 and int8 files with the lines of a texts file', async () => {
    await using desk = await Desk.open()
    const texts = desk.file('texts', '{"text":"from text"}\n{"content":"from content"}\nplain\n')
    const rows = [
      [3, 4],
      [-1, 0],
      [0, 2],
    ]
    const fvecs = rows.flatMap((row) => [Buffer.of(2, 0, 0, 0), Buffer.from(Float32Array.from(row).buffer)])
    const files = [
      [desk.file('rows.fvecs', Buffer.concat(fvecs))],
      [desk.file('rows.f32', Buffer.from(Float32Array.from(rows.flat()).buffer)), '--dimension', '2'],
      [desk.file('bytes', Buffer.from(rows.flat())), '--format', 'i8', '--dimension', '2', '--scale', '2'],
      [desk.file('rows.i8', Buffer.from(rows.flat())), '--dimension', '2', '--normalize'],
    ]
    for (const [file, ...options] of files) {
      assertEnded(await desk.vicinal('import', file!, '--texts', texts, ...options), 0)
    }
    const stored = (await allPoints(desk.client)).map(({ vector, payload }) => [...vector, payload.content])
    const expected = [1, 1, 2, 1 / 5].flatMap((factor, file) => {
      const scales = file === 3 ? [1 / 5, 1, 1 / 2] : [factor, factor, factor]
      return rows.map((row, index) => [
        ...row.map((each) => Math.fround(each * scales[index]!)),
        ['from text', 'from content', 'plain'][index]!,
      ])
    })
    assert.deepEqual(stored.map(String).sort(), expected.map(String).sort())
  })

  it('names a bad record by file and line, keeps earlier records, and can skip it', async () => {
    await using desk = await Desk.open()
    const bad: readonly (readonly [string, RegExp])[] = [
      ['{"vector": [1, 2', /not JSON/],
      ['{"vector": [1, "2"], "content": "x"}', /`vector` is not made of numbers: "2"/],
      ['{"vector": [1, 2]}', /`content` is missing/],
      ['{"vector": [1, 2], "content": "x", "content_type": "Sound"}', /`content_type` is not Text or Image/],
      ['{"vector": [1, 1e39], "content": "x"}', /`vector` has 1e\+39 at 1: not a finite float32/],
      ['{"vector": [1, 2, 3], "content": "x"}', /vector has 3 dimensions, the collection has 2/],
      ['null', /not a JSON object/],
    ]
    for (const [index, [line, fault]] of bad.entries()) {
      const file = desk.file(`bad-${index}.jsonl`, `${jsonLines(linesOf(1))}${line}\n`)
      const { code, stderr } = await desk.vicinal('import', file, '--batch-size', '1')
      assert.equal(code, 1)
      assert.ok(stderr.includes(`${file}:2: `), stderr)
      assert.match(stderr, fault)
      assert.match(stderr, /1 points are stored; the same command continues after them/)
    }
    const file = desk.file(
      'mixed.jsonl',
      bad
        .map(([line], index) => `${line}\n${jsonLines([{ vector: [9, index], content: `good ${index}` }])}`)
        .join(''),
    )
    const ended = await desk.vicinal('import', file, '--skip-invalid')
    assert.equal(ended.code, 0, ended.stderr)
    assert.match(ended.stdout, /^7 points .*, 7 bad records skipped\n$/)
    for (const [index, [, fault]] of bad.entries()) {
      assert.match(ended.stderr, new RegExp(`mixed.jsonl:${2 * index + 1}: .*${fault.source}`))
    }
    const good = (await contentsIn(desk.client)).filter((content) => content.startsWith('good'))
    assert.deepEqual(
      good,
      bad.map((_, index) => `good ${index}`),
    )
  })

  it('refuses files whose size or content does not fit their format', async () => {
    await using desk = await Desk.open()
    const five = desk.file('five.i8', Buffer.of(1, 2, 3, 4, 5))
    const two = desk.file('two.i8', Buffer.of(1, 2, 3, 4))
    const text = desk.file('text', 'one\n')
    const cases: readonly (readonly [readonly string[], number, RegExp])[] = [
      [[five], 2, /format i8 needs --dimension/],
      [
        [five, '--dimension', '2'],
        2,
        /five.i8: it has 5 bytes, which is not a whole number of rows of 2 bytes/,
      ],
      [[two, '--dimension', '2', '--texts', text], 1, /two.i8: .*text has 1 lines, the file has more rows/],
      [
        [two, '--dimension', '4', '--texts', desk.file('more', 'a\nb\n')],
        1,
        /two.i8: the file has 1 rows, .*more has more lines/,
      ],
      [
        [desk.file('x.fvecs', Buffer.alloc(12))],
        1,
        /x.fvecs: it is not an .fvecs file: it has a row of 0 components/,
      ],
      [[desk.path('missing')], 2, /missing does not exist/],
      [[desk.path('.')], 2, /is a directory, it must be a file/],
      [[five, '--scale', 'x'], 2, /--scale <factor>' argument 'x' is invalid/],
    ]
    for (const [args, code, stderr] of cases) assertEnded(await desk.vicinal('import', ...args), code, stderr)
  })

  it('stores every point exactly once, however often it is killed, next to the same points of an earlier import', async () => {
    await using desk = await Desk.open()
    const seed = 20_260_615
    const random = seededRandom(seed)
    const count = 1500
    const file = desk.file('many.jsonl', jsonLines(linesOf(count)))
    assertEnded(await desk.vicinal('import', file, '--ids', desk.path('first-ids')), 0)
    const args = ['import', file, '--again', '--batch-size', '5', '--ids', desk.path('ids'), ...desk.overGrpc]
    let storedBefore = count
    for (let kill = 0; kill < 3; kill += 1) {
      const importer = new Command(args)
      const goal = storedBefore + 50 + Math.floor(random() * 400)
      while ((await desk.client.count()) < goal) await delay(5)
      importer.kill('SIGKILL')
      assert.equal((await importer.ended).code, null, `killed too late with seed ${seed}`)
      storedBefore = await desk.client.count()
    }
    const last = await run(args)
    assert.match(last.stderr, /continuing after record \d+, by the journal/)
    assert.equal(last.code, 0)
    const expected = linesOf(count).map(({ content }) => content)
    assert.deepEqual(await contentsIn(desk.client), [...expected, ...expected].sort(), `seed ${seed}`)
    const ids = idsIn(desk.path('ids'))
    assert.equal(new Set([...ids, ...idsIn(desk.path('first-ids'))]).size, 2 * count)
    assert.equal((await desk.client.get(ids[count - 1]!)).payload.content, expected[count - 1])
  })

  it('resends unanswered batches under their original keys, and says so', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.jsonl', `${jsonLines(linesOf(30))}no JSON\n`)
    const args = ['import', file, '--batch-size', '10', '--ids', desk.path('ids')]
    assertEnded(await desk.vicinal(...args), 1, /points.jsonl:31: not JSON/)
    const ids = idsIn(desk.path('ids'))
    // A point deleted in between stays deleted, and its id stays in the file.
    await desk.client.delete(ids[15]!)
    asIfKilled(file, { done: 10, sent: [20, 30] })

    const resumed = await desk.vicinal(...args, '--skip-invalid')
    assertEnded(resumed, 0, /continuing after record 10, by the journal/)
    assert.match(
      resumed.stderr,
      /2 batches \(of records 11 to 30\) were sent and not answered: they are sent again with the same keys/,
    )
    assert.match(resumed.stderr, /the batches without an answer are now stored, each once/)
    assert.deepEqual(idsIn(desk.path('ids')), ids)
    assert.equal(await pointsStored(desk.service.httpUrl), 29)
  })

  it('continues after a broken line is fixed, but not after stored or sent lines are changed', async () => {
    await using desk = await Desk.open()
    const lines = linesOf(30).map((line) => JSON.stringify(line))
    const write = (changes: Readonly<Record<number, string>>): string =>
      desk.file('points.jsonl', lines.map((line, index) => `${changes[index] ?? line}\n`).join(''))
    const file = write({ 25: '{"vector": [1, 2' })
    const args = ['import', file, '--batch-size', '10', '--ids', desk.path('ids')]
    assertEnded(await desk.vicinal(...args), 1, /points.jsonl:26: not JSON/)

    write({ 25: '{"vector": [1, 2', 5: '{"vector":[7,7],"content":"other"}' })
    assertEnded(await desk.vicinal(...args), 1, /the file has changed in the part that is stored/)
    write({ 25: '{"vector":[1,2,3],"content":"mended wrongly"}' })
    assertEnded(await desk.vicinal(...args), 1, /points.jsonl:26: vector has 3 dimensions/)

    asIfKilled(write({}), { done: 10, sent: [20] })
    write({ 12: '{"vector":[7,7],"content":"other"}' })
    assertEnded(
      await desk.vicinal(...args),
      1,
      /records 11 to 20 were sent before and not answered, but they have changed: .*--resend-uncertain/,
    )
    writeFileSync(
      file,
      lines
        .slice(0, 15)
        .map((line) => `${line}\n`)
        .join(''),
    )
    assertEnded(await desk.vicinal(...args), 1, /records 11 to 20 were sent .*but they have changed/)

    write({ 25: '{"vector":[1,2],"content":"mended"}' })
    assertEnded(await desk.vicinal(...args), 0, /continuing after record 10/)
    assert.equal(new Set(idsIn(desk.path('ids'))).size, 30)
    assert.equal(await pointsStored(desk.service.httpUrl), 30)
    assert.equal((await desk.client.get(idsIn(desk.path('ids'))[25]!)).payload.content, 'mended')
  })

  it('resends batches whose outcome can no longer be known only if told to', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.jsonl', `${jsonLines(linesOf(30))}no JSON\n`)
    const args = ['import', file, '--batch-size', '10', '--skip-invalid']
    assertEnded(await desk.vicinal('import', file, '--batch-size', '10'), 1, /not JSON/)
    asIfKilled(file, { done: 10, sent: [20, 30], sentMs: Date.now() - 24 * 3_600_000 })
    assertEnded(
      await desk.vicinal(...args),
      1,
      /2 batches with 20 records \(records 11 to 20, records 21 to 30\) were sent about a day ago.*--resend-uncertain/,
    )
    const resent = await desk.vicinal(...args, '--resend-uncertain')
    assertEnded(resent, 0, /WARNING: 2 batches with 20 records/)
  })

  it('accepts other flags and another service while nothing is stored', async () => {
    await using desk = await Desk.open()
    await desk.client.insert({ vector: [1, 2], payload: { contentType: 'Text', content: 'first' } })
    const file = desk.file('rows.i8', Buffer.of(1, 2, 3, 4))
    const port = await freePort()
    const nowhere = ['--grpc', `localhost:${port}`, '--api-key', 'k']
    assertEnded(await run(['import', file, '--dimension', '2', ...nowhere]), 1, /no gRPC service answers/)
    const nowhereHttp = ['--http', `http://127.0.0.1:${port}`]
    assertEnded(await run(['import', file, '--dimension', '2', ...nowhereHttp]), 1, /no HTTP service answers/)
    assertEnded(await desk.vicinal('import', file, '--dimension', '4'), 1, /row 0: vector has 4 dimensions/)
    assertEnded(await desk.vicinal('import', file, '--dimension', '2', '--scale', '2'), 0)
    assert.equal(await pointsStored(desk.service.httpUrl), 3)
  })

  it('says that a file was already imported, and imports it again only if told to', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.jsonl', jsonLines(linesOf(3)))
    assertEnded(await desk.vicinal('import', file), 0)
    assertEnded(
      await desk.vicinal('import', file),
      2,
      /points.jsonl was already imported into localhost:\d+: 3 points, finished 20.*--again imports it once more/,
    )
    // This import stores nothing, so the journal of the finished one stays.
    const port = await freePort()
    const nowhere = ['--grpc', `localhost:${port}`, '--api-key', 'k']
    assertEnded(await run(['import', file, '--again', ...nowhere]), 1, /no gRPC service answers/)
    assertEnded(await desk.vicinal('import', file), 2, /was already imported/)
    assert.equal(await pointsStored(desk.service.httpUrl), 3)
    assertEnded(await desk.vicinal('import', file, '--again'), 0)
    assert.equal(await pointsStored(desk.service.httpUrl), 6)
  })

  it('does not continue from the journal of another import or an earlier version', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.jsonl', `${jsonLines(linesOf(3))}no JSON\n`)
    assertEnded(await desk.vicinal('import', file, '--batch-size', '1'), 1, /3 points are stored/)
    assertEnded(
      await desk.vicinal('import', file, '--normalize'),
      2,
      /begun with no flags that change points, not with --normalize: 3 points of it are stored/,
    )
    const overHttp = ['import', file, ...desk.overHttp]
    assertEnded(await run(overHttp), 2, /begun into localhost:\d+, not http:.*: 3 points of it are stored/)
    const journal = `${file}.vicinal-import`
    await writeFile(journal, '{}')
    assertEnded(await desk.vicinal('import', file), 2, /is not a journal/)
  })

  it('begins again if the collection was emptied or replaced, and refuses if only a part of its points is left', async () => {
    await using desk = await Desk.open()
    // Half of the points expire, long after this test.
    const points50 = linesOf(50).map((line, index) =>
      index % 2 === 0 ? line : { ...line, ttl_seconds: 9999 },
    )
    const lines = jsonLines(points50).split('\n')
    const file = desk.file('points.jsonl', lines.with(40, 'no JSON').join('\n'))
    const into = ['import', file, '--batch-size', '10', '--collection', 'c']
    const create = (): Promise<unknown> => desk.client.collections.put('c', { dimension: 2 })
    await create()
    assertEnded(await desk.vicinal(...into), 1, /40 points are stored; the same command continues/)
    await desk.client.collections.delete('c')
    await create()
    desk.file('points.jsonl', lines.join('\n'))
    const beginsAgain =
      /none of the 40 points that .*vicinal-import notes are stored in collection c of .*from its beginning/
    assertEnded(await desk.vicinal(...into), 0, beginsAgain)
    const points = desk.client.collection('c')
    assert.equal(await points.count(), 50)
    assertEnded(await desk.vicinal(...into), 2, /was already imported/)
    await points.deleteMatching({ filter: {}, everything: true })
    assertEnded(await desk.vicinal(...into), 0, /none of the 50 points/)
    assert.equal(await points.count(), 50)

    // 40 of 60 points are stored, and then an older snapshot is restored.
    desk.file('points.jsonl', `${lines.join('\n')}no JSON\n`)
    assertEnded(await desk.vicinal(...into, '--again', '--concurrency', '1'), 1, /50 points are stored/)
    const { points: listed } = await points.list({ limit: 100 })
    for (const { id } of listed.slice(75)) await points.delete(id)
    desk.file('points.jsonl', lines.join('\n'))
    assertEnded(
      await desk.vicinal(...into),
      2,
      /notes 50 points as stored .*, but of 5 of them only 2 are there/,
    )
  })

  it('slows down to the rate that the service accepts, and loses nothing', async () => {
    await using desk = await Desk.open({ MAX_BUFFERED_BYTES: '2000' })
    const file = desk.file('points.jsonl', jsonLines(linesOf(400)))
    assertEnded(await desk.vicinal('import', file, '--batch-size', '10', '--concurrency', '16'), 0)
    const metrics = await (await fetch(`${desk.service.httpUrl}/metrics`)).text()
    assert.match(metrics, /vicinal_requests_total\{[^}]*outcome="overloaded"[^}]*\} [1-9]/)
    assert.equal((await contentsIn(desk.client)).length, 400)
  })

  it('survives a service that is killed and restarted', async () => {
    await using directory = await temporaryDirectory()
    const [grpc, http] = [await freePort(), await freePort()]
    const data = join(directory.path, 'data')
    const environment = { GRPC_PORT: String(grpc), HTTP_PORT: String(http), GRPC_ROOT_PASSWORD: apiKey }
    const file = join(directory.path, 'points.jsonl')
    await writeFile(file, jsonLines(linesOf(1000)))
    const begin = (): Command =>
      new Command(['import', file, '--batch-size', '5'], { DATA_DIR: data, ...environment })
    let importer: Command
    {
      await using server = await ServerProcess.start(data, environment)
      importer = begin()
      await until(async () => (await pointsStored(server.httpUrl)) >= 100)
    }
    const killedMs = performance.now()
    await using server = await ServerProcess.start(data, environment)
    const startMs = performance.now() - killedMs
    const { code } = await importer.ended
    // On a slow machine a start can take longer than the 30 s for which the importer tries.
    if (code === 1 && startMs > 20_000) assert.equal((await begin().ended).code, 0)
    else {
      assert.equal(code, 0, importer.stderr)
      assert.match(importer.stdout, /^1000 points/)
    }
    const client = createHttpClient({ baseUrl: server.httpUrl })
    const expected = linesOf(1000).map(({ content }) => content)
    assert.deepEqual(await contentsIn(client), expected.sort())
  })
})

describe('the progress of an import', () => {
  it('shows percentage, points and rate on a terminal, and prints messages above the bar', () => {
    const terminal = new Terminal()
    const progress = new Progress(1000, terminal.stream)
    progress.advance(30, 250)
    progress.note('a line')
    progress.advance(60, 500)
    progress.stop()
    assert.match(terminal.written, /█+░+ 75% \| 90 points \| \d+ points\/s \| \S+ left/)
    const lineEnd = terminal.written.indexOf('a line\n') + 'a line\n'.length
    assert.ok(
      terminal.written.slice(0, lineEnd).endsWith('\x1b[1G\x1b[2Ka line\n'),
      'the bar is erased before the line',
    )
    assert.match(terminal.written.slice(lineEnd), /^\S+█+░+ 25% \|/, 'the bar is drawn again below it')
    // No saved cursor position is restored: that could overwrite an earlier line.
    for (const back of ['\x1b7', '\x1b8']) assert.ok(!terminal.written.includes(back))
    assert.ok(terminal.written.endsWith('\n'))
  })

  it('shows only counts if the input size is unknown', () => {
    const terminal = new Terminal()
    const progress = new Progress(undefined, terminal.stream)
    progress.advance(30, 250)
    progress.stop()
    assert.match(terminal.written, /30 points \| \d+ points\/s/)
    assert.doesNotMatch(terminal.written, /%/)
  })
})

const hasScript = spawnSync('script', ['--version']).error === undefined

describe('an import on a terminal', {
  skip: hasScript ? false : '`script` of util-linux is not installed',
}, () => {
  it('restores the terminal on Ctrl-C and says how to continue, and the next call continues', async () => {
    await using directory = await temporaryDirectory()
    await using server = await ServerProcess.start(join(directory.path, 'data'), {
      GRPC_ROOT_PASSWORD: apiKey,
    })
    const file = join(directory.path, 'points.jsonl')
    const count = 10_000
    await writeFile(file, jsonLines(linesOf(count)))
    const args = ['import', file, '--grpc', server.grpcAddress, '--api-key', apiKey]
    const first = new TerminalSession([...args, '--batch-size', '5', '--concurrency', '2'])
    await first.shows(/ [1-9]\d* points \|/)
    // Requests are then under way that will not be answered before the import is stopped.
    server.command.kill('SIGSTOP')
    first.type('\x03')
    assert.equal(await first.ended, 130)
    server.command.kill('SIGCONT')
    assert.ok(first.shown.includes('\x1b[?25l'), 'the cursor was hidden')
    assert.ok(
      first.shown.lastIndexOf('\x1b[?25h') > first.shown.lastIndexOf('\x1b[?25l'),
      'the cursor is shown again',
    )
    assert.match(
      first.shown,
      /\n\d+ points are stored, \d+ batches were sent and not answered; the same command continues after them\r\nvicinal: interrupted\r\n$/,
    )

    const second = new TerminalSession(args)
    assert.equal(await second.ended, 0)
    assert.match(second.shown, /continuing after record \d+, by the journal\r\n/)
    assert.match(
      second.shown,
      /batches \(of records \d+ to \d+\) were sent and not answered: they are sent again/,
    )
    assert.match(second.shown, /the batches without an answer are now stored, each once\r\n/)
    // The bar ends on its own line, and the summary begins on the next.
    assert.match(second.shown, / 100% \| \d+ points \|[^\n]*\r\n\d+ points in [^\n]*\r\n$/)
    assert.equal(await pointsStored(server.httpUrl), count)
  })
})

/** `vicinal` in a pseudo-terminal of 200 columns. */
class TerminalSession {
  readonly #child: ChildProcessWithoutNullStreams
  readonly ended: Promise<number | null>
  shown = ''

  constructor(args: readonly string[]) {
    const main = join(import.meta.dirname, '../src/cli/main.ts')
    const command = [process.execPath, main, ...args].map((word) => `'${word}'`).join(' ')
    this.#child = spawn('script', ['-qefc', `stty cols 200; exec ${command}`, '/dev/null'], {
      env: { ...compileCache, PATH: process.env.PATH, TERM: 'xterm', SHELL: '/bin/sh' },
    })
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.shown += text
    })
    this.ended = once(this.#child, 'close').then(([code]) => code as number | null)
  }

  type(keys: string): void {
    this.#child.stdin.write(keys)
  }

  async shows(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.shown)) {
      const more = once(this.#child.stdout, 'data').then(() => true)
      const isAlive = await Promise.race([more, this.ended.then(() => false)])
      if (!isAlive && !pattern.test(this.shown))
        assert.fail(`ended without showing ${pattern}:\n${this.shown}`)
    }
  }
}

/** Records what is written to a terminal of 100 columns. */
class Terminal {
  written = ''
  readonly stream: NodeJS.WriteStream

  constructor() {
    const stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.written += chunk.toString()
        done()
      },
    })
    this.stream = Object.assign(stream, { isTTY: true, columns: 100 }) as unknown as NodeJS.WriteStream
  }
}

describe('vicinal query, get and delete', () => {
  it('print the nearest points, a point as JSON, and nothing', async () => {
    await using desk = await Desk.open()
    const payload = (content: string): Point['payload'] => ({ contentType: 'Text', content })
    const near = await desk.client.insert({ vector: [0.1, -0], payload: payload('near\nby') })
    const far = await desk.client.insert({ vector: [9, 9], payload: payload('far "away"') })

    for (const transport of [desk.overGrpc, desk.overHttp]) {
      const table = await run(['query', '--vector', '[0, 0]', '--metric', 'Euclidean', ...transport])
      assert.deepEqual(table, {
        code: 0,
        stderr: '',
        stdout: `  1  ${near}  near by\n  2  ${far}  far "away"\n`,
      })
      const got = await run(['get', near.toUpperCase(), ...transport])
      assert.equal(
        got.stdout,
        `{"id":"${near}","vector":[0.10000000149011612,-0],"payload":{"content_type":"Text","content":"near\\nby"}}\n`,
      )
    }
    const file = desk.file('query.json', '{"vector":[8,8],"limit":1}')
    const json = await desk.vicinal('query', '--vector-file', file, '--limit', '1', '--json')
    assert.equal(
      json.stdout,
      `{"id":"${far}","distance":0,"payload":{"content_type":"Text","content":"far \\"away\\""}}\n`,
    )
    const rows = desk.file('rows.i8', Buffer.of(0, 0, 7, 7))
    const row = await desk.vicinal(
      'query',
      '--vector-file',
      rows,
      '--row',
      '1',
      '--dimension',
      '2',
      '--limit',
      '1',
    )
    assert.match(row.stdout, /far/)
    assert.match((await desk.vicinal('query', '--like', near, '--limit', '1')).stdout, /near/)
    for (const vector of ['8,8', ' 8 8 ']) {
      assert.match((await desk.vicinal('query', '--vector', vector, '--limit', '1')).stdout, /far/)
    }

    assertEnded(await desk.vicinal('delete', far, '--dry-run'), 2, /need --filter: nothing was deleted\n$/)
    assert.equal((await desk.client.get(far)).id, far)
    assert.deepEqual(await desk.vicinal('delete', far), { code: 0, stdout: '', stderr: '' })
    assertEnded(await desk.vicinal('get', far), 1, /^vicinal: Point not found\n$/)
    assert.deepEqual(await desk.vicinal('delete', far), { code: 0, stdout: '', stderr: '' })
    assertEnded(await desk.vicinal('get', 'nonsense'), 1, /^vicinal: id "nonsense" is not a UUID\n$/)
  })

  it('round-trip: import stores what get prints', async () => {
    await using desk = await Desk.open()
    const line = '{"vector":[1.5,2],"content_type":"Image","content":"c","attributes":{"n":[1e18]}}'
    assertEnded(await desk.vicinal('import', desk.file('first.jsonl', line)), 0)
    const { points } = await desk.client.list()
    const file = desk.file('one.jsonl', (await desk.vicinal('get', points[0]!.id)).stdout)
    assertEnded(
      await desk.vicinal('import', file),
      0,
      /^not stored: column id \(1 row\); --keep-ids stores ids\n$/,
    )
    const [first, second] = await allPoints(desk.client)
    assert.deepEqual({ ...second, id: '' }, { ...first, id: '' })
  })

  it('end quietly when their reader closes the pipe', async () => {
    await using desk = await Desk.open()
    const content = 'x'.repeat(20_000)
    await desk.client.insertBatch(
      linesOf(50).map(({ vector }) => ({ vector, payload: { contentType: 'Text', content } })),
    )
    const command = new Command(['query', '--vector', '[0,0]', '--limit', '50', ...desk.overGrpc])
    await command.says(/x\n/)
    command.child.stdout.destroy()
    const [code] = (await once(command.child, 'exit')) as [number]
    assert.deepEqual({ code, stderr: command.stderr }, { code: 0, stderr: '' })
  })

  it('say what is wrong with the arguments', async () => {
    await using desk = await Desk.open()
    await desk.client.insert({ vector: [1, 2], payload: { contentType: 'Text', content: 'x' } })
    const cases: readonly (readonly [readonly string[], number, RegExp])[] = [
      [['query'], 2, /give the query as one of --vector, --vector-file, --like and --text/],
      [['query', '--vector', '[1'], 2, /--vector is not a vector like \[1, 2, 3\] or 1,2,3: /],
      [
        ['query', '--vector', '["1"]'],
        2,
        /--vector is not a vector, an array of numbers like \[1, 2, 3\] or 1,2,3/,
      ],
      [['query', '--vector', '[1,2]', '--row', '1'], 2, /--row needs --vector-file/],
      [['query', '--vector', '[1,2]', '--limit', '0'], 2, /'--limit <n>' argument '0' is invalid/],
      [['query', '--vector', '[1,2]', '--metric', 'Taxicab'], 2, /Allowed choices are Euclidean/],
      [['query', '--vector', '[1,2,3]'], 1, /query_vector has 3 dimensions, the collection has 2/],
      [['query', '--vector', '[1,2]', '--limit', '99999'], 1, /MAX_LIMIT/],
    ]
    for (const [args, code, stderr] of cases) assertEnded(await desk.vicinal(...args), code, stderr)
  })
})

describe('a dry run', () => {
  it('counts all points that the command would change, although one request changes fewer', async (context) => {
    // A service with 250,000 matching points.
    const server = createServer(({ url }, response) => {
      response.end(url === '/points/count' ? '{"count":250000}' : '{"changed":100000,"more":true}')
    })
    context.after(() => {
      server.close()
      server.closeAllConnections()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const http = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const matching = async (...options: string[]): Promise<string> =>
      (await run(['delete', '--filter', '{"a":1}', '--dry-run', '--http', http, ...options])).stdout
    assert.equal(await matching(), '250000 points match\n')
    assert.equal(await matching('--limit', '150000'), '150000 points match\n')
  })
})

describe('a service that cannot be reached', () => {
  it('is named, with the cause', async () => {
    await using desk = await Desk.open()
    const port = await freePort()
    const vector = ['query', '--vector', '[1]']
    const cases: readonly (readonly [readonly string[], number, RegExp])[] = [
      [
        [...vector, '--grpc', `localhost:${port}`, '--api-key', 'k'],
        1,
        new RegExp(`no gRPC service answers at localhost:${port}: connect ECONNREFUSED`),
      ],
      [
        [...vector, '--http', `http://127.0.0.1:${port}`],
        1,
        new RegExp(`no HTTP service answers at http://127.0.0.1:${port}: connect ECONNREFUSED`),
      ],
      [[...vector, '--http', 'localhost:3000'], 2, /--http: "localhost:3000" is not a URL like http:/],
      [
        [...vector, '--grpc', desk.service.grpcAddress, '--api-key', 'wrong'],
        1,
        /invalid API key .*\(the key came from --api-key; use --api-key-file to name another\)/,
      ],
      [[...vector, '--api-key-file', desk.path('none')], 2, /--api-key-file: .*none does not exist/],
      [
        ['stats', '--http', `http://127.0.0.1:${port}`],
        1,
        new RegExp(`no answer from http://127.0.0.1:${port}`),
      ],
      [
        [
          'import',
          desk.file('one.jsonl', jsonLines(linesOf(1))),
          '--grpc',
          `localhost:${port}`,
          '--api-key',
          'k',
        ],
        1,
        /no gRPC service answers/,
      ],
    ]
    for (const [args, code, stderr] of cases) assertEnded(await run(args), code, stderr)
    assertEnded(
      await run(vector, { DATA_DIR: desk.path('nowhere') }),
      2,
      /no API key for gRPC: there is no .*nowhere\/api-key/,
    )
  })

  it('accepts the key of its data directory or one from the environment', async () => {
    await using directory = await temporaryDirectory()
    await using server = await ServerProcess.start(directory.path)
    const query = ['query', '--vector', '[1]', '--grpc', server.grpcAddress]
    const here = await run(query, { DATA_DIR: directory.path })
    assert.deepEqual(here, { code: 0, stdout: '', stderr: 'nothing found: the database is empty\n' })
    const key = (await readFile(join(directory.path, 'api-key'), 'utf8')).trim()
    assert.equal((await run(query, { VICINAL_API_KEY: key })).code, 0)
    assert.equal((await run(query, { GRPC_ROOT_PASSWORD: key })).code, 0)
  })
})

describe('vicinal stats', () => {
  it('shows the figures of a service as lines or as JSON', async () => {
    await using desk = await Desk.open({ HTTP_API_KEY: 'http-key' })
    const client = createHttpClient({ baseUrl: desk.service.httpUrl, apiKey: 'http-key' })
    await client.insertBatch(
      linesOf(3).map(({ vector, content }) => ({ vector, payload: { contentType: 'Text', content } })),
    )
    await client.search({ vector: [1, 0], metric: 'Cosine', limit: 1, filter: { $content_type: 'Text' } })
    const text = await run(['stats', ...desk.overHttp, '--api-key', 'http-key'])
    assert.match(text.stdout, /^state +ready$/m)
    assert.match(text.stdout, /^filtered_searches_scan +1$/m)
    assert.match(text.stdout, /^filtered_searches_walk +0$/m)
    assert.match(text.stdout, /^points +3$/m)
    assert.match(text.stdout, /^index_distance_source_Euclidean +no graph yet$/m)
    assert.match(text.stdout, /^index_recall_Cosine +1$/m)
    const json = await run(['stats', ...desk.overHttp, '--json'], { HTTP_API_KEY: 'http-key' })
    const figures = JSON.parse(json.stdout) as Record<string, unknown>
    assert.deepEqual([figures.state, figures.points, figures.dimension], ['ready', 3, 2])
    assertEnded(await run(['stats', ...desk.overHttp]), 1, /answered 401: missing or invalid API key/)
  })
})

describe('vicinal', () => {
  it('prints its version', async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as {
      version: string
    }
    assert.deepEqual(await run(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it('explains every setting', async () => {
    const { code, stdout } = await run(['serve', '--help'])
    assert.equal(code, 0)
    const words = stdout.replace(/\s+/g, ' ')
    for (const row of Object.values(settings)) {
      assert.ok(stdout.includes(`--${row.flag} `), row.flag)
      assert.ok(words.includes(`${row.doc} (env: ${row.env}, default: ${defaultText(row)})`), row.doc)
    }
  })

  it('lists every command on one screen, and describes it in one line', async () => {
    const { code, stdout } = await run(['--help'])
    assert.equal(code, 0)
    const lines = stdout.trimEnd().split('\n')
    assert.ok(lines.length <= 35, `${lines.length} lines`)
    for (const line of lines) assert.ok(line.length <= 80, line)
    const first = lines.indexOf('Commands:') + 1
    const names = lines.slice(first, lines.indexOf('', first)).map((line) => /^ {2}(\w+)/.exec(line)?.[1])
    assert.ok(names.length > 15)
    for (const name of names) assertEnded(await run([name!, '--help']), 0)
  })

  it('suggests the command that was meant', async () => {
    for (const [typed, meant] of [
      [['qery'], 'query'],
      [['colections', 'list'], 'collections'],
      [['cluster', 'statsu'], 'status'],
    ] as const) {
      const said = new RegExp(`^error: unknown command '\\w+'\\n\\(Did you mean ${meant}\\?\\)\\n`)
      assertEnded(await run(typed), 2, said)
    }
  })

  it('refuses unknown commands and options', async () => {
    assertEnded(await run(['frobnicate']), 2, /^error: unknown command 'frobnicate'\n/)
    assertEnded(await run(['serve', 'frobnicate']), 2, /^error: too many arguments for 'serve'/)
    assertEnded(await run(['--frobnicate']), 2, /^error: unknown option '--frobnicate'\n/)
    assertEnded(await run(['import']), 2, /missing required argument 'file'/)
    assertEnded(await run(['query', '--frobnicate']), 2, /unknown option.*\n\(see vicinal query --help\)/)
  })
})
