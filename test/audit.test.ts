import assert from 'node:assert/strict'
import { appendFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Audit, type AuditRecord } from '../src/api/audit.ts'
import { createHttpClient } from '../src/client/index.ts'
import { LineLog } from '../src/storage/files/line-log.ts'
import { figureOf } from './support/metrics.ts'
import { assertEnded, run, temporaryDirectory } from './support/process.ts'
import { RawHttp } from './support/raw-http.ts'
import { clientOf, fileOfKeys, secretOf, transports } from './support/restricted-keys.ts'
import { apiKey, startServedBy, type TestService } from './support/service.ts'
import { noSmallDisk, SmallDisk } from './support/small-disk.ts'
import { until } from './support/until.ts'

/** The audit: what is in it, how it is read, and what happens to its files. The matrix of rights compares each call. */

async function linesOf(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), 'utf8')))
  return texts.join('').split('\n').filter(Boolean)
}

for (const threads of [0, 2]) {
  describe(`the audit of a service with ${threads} serving threads`, () => {
    const stack = new AsyncDisposableStack()
    let service: TestService

    before(async () => {
      const directory = stack.use(await temporaryDirectory())
      const settings = { API_KEYS_FILE: await fileOfKeys(directory.path), AUDIT: 'writes' }
      service = stack.use(await startServedBy(threads, settings))
    })
    after(() => stack.disposeAsync())

    it('has changes and refused calls, and no vector, payload or key', async () => {
      for (const transport of transports) {
        const client = clientOf(service, transport, secretOf('write'))
        const point = {
          contentType: 'Text',
          content: 'c0ntent',
          attributes: { secret: 'attribute-value' },
        } as const
        const id = await client.insert({ vector: [0.123456, 2], payload: point })
        await client.get(id)
        await client.search({ vector: [0.123456, 2], metric: 'Cosine', limit: 1 })
        await assert.rejects(client.insert({ vector: [1], payload: point }))
        for (const [key, call] of [
          [secretOf('read'), 'delete'],
          ['not-a-key-at-all', 'get'],
        ] as const) {
          const refused = clientOf(service, transport, key)
          await assert.rejects(refused[call](id))
          await refused.close()
        }
        await client.close()
      }
      const root = clientOf(service, 'grpc', apiKey)
      let seen: string[] = []
      // Lines of other threads than the one that answers come a little later.
      await until(async () => {
        seen = (await root.audit()).records.map(({ key, operation, collection, allowed, error, transport }) =>
          [key, operation, collection, allowed, error, transport].join(' '),
        )
        return seen.length >= 4 * transports.length
      })
      const expected = transports.flatMap((transport) => [
        `importer InsertVector default true  ${transport}`,
        `importer InsertVector default true invalid_argument ${transport}`,
        `dashboard DeletePoint default false permission_denied ${transport}`,
        ` GetPoint default false unauthenticated ${transport}`,
      ])
      assert.deepEqual(seen.sort(), expected.sort())
      const text = (await linesOf(join(service.dataDir, 'audit'))).join('\n')
      for (const secret of ['c0ntent', 'attribute-value', '0.123', 'not-a-key', secretOf('write'), apiKey]) {
        assert.ok(!text.includes(secret), text)
      }
      await root.close()
    })

    it('is the same after a restart, over both transports, and can be filtered', async () => {
      const root = clientOf(service, 'grpc', apiKey)
      const before = await root.audit({ limit: 1000 })
      await root.close()
      const oldest = before.records.at(-1)!
      await service.restart()
      const [grpc, http] = [clientOf(service, 'grpc', apiKey), clientOf(service, 'http', secretOf('admin'))]
      for (const client of [grpc, http]) {
        const all = await client.audit({
          until: new Date(before.records[0]!.time.getTime() + 1),
          limit: 1000,
        })
        assert.deepEqual(all.records, before.records)
        const refused = await client.audit({ allowed: false, operation: 'DeletePoint', key: 'dashboard' })
        assert.equal(refused.records.length, 2)
        const one = await client.audit({
          until: new Date(oldest.time.getTime() + 1),
          allowed: oldest.allowed,
        })
        assert.ok(one.records.some((each) => each.time.getTime() === oldest.time.getTime()))
        assert.deepEqual((await client.audit({ since: new Date(Date.now() + 3_600_000) })).records, [])
        const since = before.records[3]!.time
        const newer = await client.audit({ since, until: new Date(before.records[0]!.time.getTime() + 1) })
        assert.deepEqual(
          newer.records,
          before.records.filter(({ time }) => time >= since),
        )
        assert.deepEqual((await client.audit({ collection: 'none' })).records, [])
        const paged = []
        for (let cursor: string | undefined; ; ) {
          const page = await client.audit({ key: 'importer', limit: 1, cursor })
          paged.push(...page.records)
          cursor = page.nextCursor
          if (cursor === undefined) break
        }
        assert.deepEqual(
          paged,
          before.records.filter(({ key }) => key === 'importer'),
        )
        await assert.rejects(client.audit({ cursor: 'x' }), { reason: 'invalid_argument' })
        await client.close()
      }
      for (const query of [
        'limit=0',
        'limit=x',
        'since=yesterday',
        'allowed=maybe',
        'key=a&key=b',
        'cursor=1',
      ]) {
        const response = await fetch(`${service.httpUrl}/audit?${query}`, {
          headers: { authorization: secretOf('admin') },
        })
        assert.equal(response.status, 400, query)
        assert.match(await response.text(), new RegExp(`^${query.split('=')[0]} is (?!NaN)`))
      }
    })

    it('is printed by the command line', async () => {
      const connection = ['--grpc', service.grpcAddress, '--api-key', apiKey]
      const { code, stdout, stderr } = await run([
        'audit',
        ...connection,
        '--key',
        'dashboard',
        '--limit',
        '1',
      ])
      assert.deepEqual([code, stderr], [0, ''])
      const line =
        /^\S+Z {2}dashboard {2}DeletePoint {2}default {2}refused: permission_denied {2}http 127\.0\.0\.1\n$/
      assert.match(stdout, line)
      const http = ['--http', service.httpUrl, '--api-key', secretOf('admin')]
      const json = await run(['audit', ...http, '--refused', '--operation', 'DeletePoint', '--json'])
      const records = json.stdout
        .trim()
        .split('\n')
        .map((each) => JSON.parse(each))
      assert.deepEqual(
        records.map(({ key, allowed }) => [key, allowed]),
        [
          ['dashboard', false],
          ['dashboard', false],
        ],
      )
      const newest = records[0].time
      const since = ['--key', 'dashboard', '--since', newest, '--json']
      assert.equal((await run(['audit', ...http, ...since])).stdout, json.stdout.split(/(?<=\n)/)[0])
      const refused = await run(['audit', '--http', service.httpUrl, '--api-key', secretOf('read')])
      assertEnded(refused, 1, /may only read: GET \/audit needs one with the role admin/)
    })

    it('shows a few calls a second without a valid key, and counts the others', async () => {
      const stranger = createHttpClient({ baseUrl: service.httpUrl, apiKey: 'not-a-key-at-all', retries: 0 })
      const since = new Date()
      await Promise.all(Array.from({ length: 100 }, async () => await assert.rejects(stranger.count())))
      const root = clientOf(service, 'grpc', apiKey)
      await until(async () => {
        const { records } = await root.audit({ since, allowed: false, limit: 1000 })
        const calls = records.reduce((sum, each) => sum + (each.calls ?? 1), 0)
        assert.ok(records.length < 90 && calls <= 100, `${calls} calls in ${records.length} records`)
        return calls === 100
      })
      await root.close()
    })
  })
}

describe('a service without an audit', () => {
  it('says so', async () => {
    await using service = await startServedBy(0)
    for (const transport of transports) {
      const client = clientOf(service, transport, apiKey)
      await client.count()
      await assert.rejects(client.audit(), { reason: 'precondition_failed', message: /AUDIT/ })
      await client.close()
    }
    assert.ok(!(await readdir(service.dataDir)).includes('audit'))
  })
})

describe('the lines of a key that is refused', () => {
  it('are some hundred, and the others are counted', async () => {
    for (const error of ['permission_denied', 'overloaded'] as const) {
      let text = ''
      const write = async (lines: string): Promise<void> => {
        text += lines
      }
      const audit = new Audit({ level: 'all', waitMs: 1, write })
      const call = { operation: 'CountPoints', collection: 'docs', role: 'read', key: 'reader' } as const
      for (let at = 0; at < 500; at += 1)
        audit.note({ ...call, transport: 'http', address: undefined, error })
      await audit.close()
      const records = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as AuditRecord)
      assert.equal(
        records.reduce((sum, { calls = 1 }) => sum + calls, 0),
        500,
      )
      // The second can end meanwhile.
      assert.ok(records.length > 100 && records.length < 300, `${records.length} lines`)
      for (const { key, allowed, error: why } of records)
        assert.deepEqual([key, allowed, why], ['reader', error === 'overloaded', error])
    }
  })
})

describe('an audit on a full disk', () => {
  it('waits, then loses lines and says so; when there is space again, it says how many are missing', async (context) => {
    using disk = SmallDisk.mount(8 * 1024 * 1024)
    if (disk === undefined) return context.skip(noSmallDisk)
    await using temporary = await temporaryDirectory()
    const dataDir = join(temporary.path, 'data')
    const directory = join(dataDir, 'audit')
    await mkdir(dataDir, { mode: 0o700 })
    await symlink(disk.path, directory)
    await using service = await startServedBy(0, { DATA_DIR: dataDir, AUDIT: 'all' })
    using http = await RawHttp.open(service.service.httpAddress!.port)
    let calls = 0
    const call = async (count: number): Promise<void> => {
      const head = `GET /collections/${'c'.repeat(60)}/points/x HTTP/1.1\r\nhost: localhost\r\n\r\n`
      http.write(head.repeat(count))
      for (let each = 0; each < count; each += 1) assert.equal((await http.answer()).status, 404)
      calls += count
    }
    const readiness = async (): Promise<string> => await (await fetch(`${service.httpUrl}/readyz`)).text()
    await call(1)
    await until(async () => (await linesOf(directory)).length === 1)
    disk.fill()
    // Some lines fit into the last page of the file.
    while (!/audit/.test(await readiness())) await call(20)
    const lost = (): Promise<number> => figureOf(service, 'vicinal_audit_lost_lines')
    while ((await lost()) === 0) await call(200)
    // A write that waits can end only now, and its lines fit.
    disk.empty()
    await until(async () => !/audit/.test(await readiness()))
    const root = clientOf(service, 'grpc', apiKey)
    await root.audit({ limit: 1 })
    const records = (await linesOf(directory)).map((line) => JSON.parse(line) as AuditRecord)
    const missing = records.filter(({ operation }) => operation === 'Lost')
    assert.equal(
      missing.reduce((sum, each) => sum + each.lost!, 0),
      await lost(),
    )
    assert.equal(records.filter(({ operation }) => operation === 'GetPoint').length + (await lost()), calls)
    // It is part of every answer that reaches back to it.
    const { records: shown } = await root.audit({ operation: 'DeletePoint', limit: 1000 })
    assert.deepEqual(
      shown.map((each) => each.lost),
      missing.map((each) => each.lost).reverse(),
    )
    await root.close()
  })
})

describe('the files of the audit', () => {
  it('are bounded in size and number, and places in them stay', async () => {
    await using directory = await temporaryDirectory()
    const bounds = { directory: join(directory.path, 'audit'), fileBytesMax: 1000, filesMax: 3 }
    const log = new LineLog(bounds)
    for (let line = 0; line < 200; line += 1) await log.append(`${line} ${'x'.repeat(46)}\n`)
    await log.close()
    assert.deepEqual(await readdir(bounds.directory), ['00000008.jsonl', '00000009.jsonl', '00000010.jsonl'])
    assert.ok((await linesOf(bounds.directory)).length > 50)
    const numbers: number[] = []
    let cut: string | undefined
    const again = new LineLog(bounds)
    for await (const block of again.backwards()) {
      for (const { text, cursor } of block) {
        numbers.push(Number.parseInt(text, 10))
        if (numbers.length === 10) cut = cursor
      }
    }
    assert.deepEqual(
      numbers,
      Array.from(numbers, (_, index) => 199 - index),
    )
    for (let line = 200; line < 210; line += 1) await again.append(`${line}\n`)
    const older: number[] = []
    for await (const block of again.backwards(cut))
      older.push(...block.map(({ text }) => Number.parseInt(text, 10)))
    // Another file has begun, and the oldest one is gone.
    assert.deepEqual(older, numbers.slice(10, -20))
    await again.close()
  })

  it('are read in blocks that cut lines anywhere', async () => {
    await using directory = await temporaryDirectory()
    const log = new LineLog({ directory: directory.path, fileBytesMax: 1e9, filesMax: 3 })
    const lines = Array.from({ length: 3000 }, (_, line) => `${line} ${'é'.repeat(line % 97)}`)
    await log.append(`${lines.join('\n')}\n`)
    const read: string[] = []
    for await (const block of log.backwards()) read.push(...block.map(({ text }) => text))
    assert.deepEqual(read.reverse(), lines)
    await log.close()
  })

  it('lose only a line that a crash has cut off', async () => {
    await using directory = await temporaryDirectory()
    const { path } = directory
    const open = () => new LineLog({ directory: path, fileBytesMax: 1e6, filesMax: 3 })
    const log = open()
    await log.append('{"time":"2026-01-01T00:00:00.000Z","operation":"First"}\n')
    await log.close()
    await appendFile(join(path, '00000001.jsonl'), '{"time":"2026-01-01T00:00:01.000Z","opera')
    const next = open()
    const audit = new Audit({
      level: 'all',
      waitMs: 0,
      write: (text) => next.append(text),
      read: (at) => next.backwards(at),
    })
    audit.add('{"time":"2026-01-01T00:00:02.000Z","operation":"Last"}\n')
    const { records } = await audit.list({ limit: 10 }, undefined)
    assert.deepEqual(
      records.map(({ operation }) => operation),
      ['Last', 'First'],
    )
    await next.close()
  })

  it('are written later if they cannot be written now; too many lines are lost, and counted', async () => {
    await using directory = await temporaryDirectory()
    const path = join(directory.path, 'audit')
    // A file is where the directory should be.
    await writeFile(path, '')
    const log = new LineLog({ directory: path, fileBytesMax: 1e9, filesMax: 3 })
    const faults: unknown[] = []
    const audit = new Audit({
      level: 'all',
      waitMs: 0,
      write: (text) => log.append(text),
      onFault: (error) => faults.push(error),
    })
    const line = `${JSON.stringify({ time: new Date().toISOString(), operation: 'x'.repeat(1000) })}\n`
    audit.add(line)
    await audit.flush()
    await audit.flush()
    assert.equal(faults.length, 1)
    assert.ok(audit.isFailing)
    for (let each = 0; each < 5000; each += 1) audit.add(line)
    assert.ok(audit.lost > 500 && audit.lost < 2000, `${audit.lost}`)
    await rm(path)
    await audit.flush()
    assert.equal(audit.isFailing, false)
    assert.equal((await linesOf(path)).length + audit.lost, 5001)
    await audit.close()
    await log.close()
  })
})
