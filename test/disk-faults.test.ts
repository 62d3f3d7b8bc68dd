import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ChildService } from './support/child-service.ts'
import { type DiskFault, FailingDisk } from './support/failing-disk.ts'
import { temporaryDirectory } from './support/process.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { apiKey, startTestService } from './support/service.ts'
import { noSmallDisk, SmallDisk } from './support/small-disk.ts'
import { until } from './support/until.ts'

/** What clients see on both transports when the service's disk fails, and which data remain afterwards. */

const mebibyte = 1024 * 1024
const internal = { http: 500, grpc: 13 }
const full = { http: 507, grpc: 8 }

/** Both transports of one service. Each call returns the status of its transport, or 0 for success. */
class Caller implements Disposable {
  readonly #httpUrl: string
  readonly #grpc: RawGrpc
  #next = 0

  constructor(service: { readonly httpUrl: string; readonly grpcAddress: string }) {
    this.#httpUrl = service.httpUrl
    this.#grpc = new RawGrpc(service.grpcAddress, apiKey)
  }

  async insertHttp(content: string): Promise<Outcome> {
    const payload = { content_type: 'Text', content }
    const answer = await this.#http('POST', '/points', { vector: this.#vector(), payload })
    return { ...answer, id: answer.status === 0 ? JSON.parse(answer.text).point_id : '' }
  }

  async insertGrpc(content: string): Promise<Outcome> {
    const request = { vector: { values: this.#vector() }, payload: { contentType: 1, content } }
    const { code, text, answer } = await this.#grpc.call('InsertVector', request)
    return { status: code, text, id: (answer as { id?: { value: string } } | undefined)?.id?.value ?? '' }
  }

  async deleteHttp(id: string): Promise<number> {
    return (await this.#http('DELETE', `/points/${id}`)).status
  }

  async deleteGrpc(id: string): Promise<number> {
    return (await this.#grpc.call('DeletePoint', { id: { value: id } })).code
  }

  async post(path: string, body: object): Promise<{ readonly status: number; readonly text: string }> {
    return await this.#http('POST', path, body)
  }

  /** Waits until payloads can be read: a database whose write failed is closed and reopened first. */
  async untilReadable(id: string): Promise<void> {
    await until(async () => (await this.#http('GET', `/points/${id}`)).status === 0)
  }

  /** Asserts that searches find exactly `ids`, and that each can be read, on both transports. */
  async assertServes(ids: ReadonlySet<string>): Promise<void> {
    const query = { vector: [0, 0], similarity: 'Euclidean', limit: 10_000 }
    const search = await this.#http('POST', '/points/search', query)
    assert.equal(search.status, 0, search.text)
    assert.deepEqual(new Set(JSON.parse(search.text).results), ids)
    const request = { queryVector: { values: [0, 0] }, similarity: 0, limit: 10_000n }
    const { code, answer } = await this.#grpc.call('SearchPoints', request)
    assert.equal(code, 0)
    const found = (answer as { resultPointIds: { id: { value: string } }[] }).resultPointIds
    assert.deepEqual(new Set(found.map(({ id }) => id.value)), ids)
    for (const id of ids) {
      assert.equal((await this.#http('GET', `/points/${id}`)).status, 0)
      assert.equal((await this.#grpc.call('GetPoint', { id: { value: id } })).code, 0)
    }
    // Threads that know the collection by now read payloads by themselves.
    const withPayloads = await this.#http('POST', '/points/search', { ...query, include: { payload: true } })
    assert.equal(JSON.parse(withPayloads.text).hits.length, ids.size)
  }

  /** Asserts that statistics and metrics are answered. */
  async assertReports(): Promise<void> {
    for (const path of ['/stats', '/metrics']) assert.equal((await this.#http('GET', path)).status, 0, path)
  }

  [Symbol.dispose](): void {
    this.#grpc[Symbol.dispose]()
  }

  #vector(): number[] {
    this.#next += 1
    return [this.#next, -this.#next]
  }

  async #http(method: string, path: string, body?: object): Promise<{ status: number; text: string }> {
    const response = await fetch(this.#httpUrl + path, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    return { status: response.ok ? 0 : response.status, text: await response.text() }
  }
}

interface Outcome {
  readonly status: number
  readonly text: string
  /** Empty if the insert failed. */
  readonly id: string
}

/** Inserts over both transports in turn until both have failed. Adds the acknowledged ids to `ids`. */
async function insertUntilRefused(
  caller: Caller,
  content: string,
  ids: Set<string>,
): Promise<{ readonly http: Outcome; readonly grpc: Outcome }> {
  for (let attempt = 0; attempt < 10_000; attempt += 1) {
    const http = await caller.insertHttp(content)
    const grpc = await caller.insertGrpc(content)
    for (const { id } of [http, grpc]) if (id !== '') ids.add(id)
    if (http.status !== 0 && grpc.status !== 0) return { http, grpc }
  }
  throw new Error('the disk never became full')
}

describe('a full disk', () => {
  it('refuses inserts, continues with other requests, and accepts inserts again after deletions or with more space', async (context) => {
    using disk = SmallDisk.mount(16 * mebibyte)
    if (disk === undefined) return context.skip(noSmallDisk)
    const ballast = join(disk.path, 'ballast')
    writeFileSync(ballast, Buffer.alloc(6 * mebibyte))
    await using service = await startTestService({ DATA_DIR: join(disk.path, 'data') })
    const ids = new Set<string>()
    const content = 'x'.repeat(60_000)
    {
      using caller = new Caller(service)
      const refused = await insertUntilRefused(caller, content, ids)
      assert.equal(refused.http.status, full.http)
      assert.equal(refused.grpc.status, full.grpc)
      for (const { text } of [refused.http, refused.grpc]) {
        assert.match(text, /is full: free some space or delete points/)
      }
      assert.ok(ids.size > 50)
      await caller.assertServes(ids)

      const [first, second, ...others] = ids
      assert.equal(await caller.deleteHttp(first!), 0)
      assert.equal(await caller.deleteGrpc(second!), 0)
      for (const id of others.slice(0, 10)) assert.equal(await caller.deleteGrpc(id), 0)
      for (const id of [first!, second!, ...others.slice(0, 10)]) ids.delete(id)
      for (const inserted of [await caller.insertHttp(content), await caller.insertGrpc(content)]) {
        assert.equal(inserted.status, 0, inserted.text)
        ids.add(inserted.id)
      }

      await insertUntilRefused(caller, content, ids)
      rmSync(ballast)
      for (let more = 0; more < 50; more += 1) {
        const inserted = await caller.insertGrpc(content)
        assert.equal(inserted.status, 0, inserted.text)
        ids.add(inserted.id)
      }
    }
    await service.restart()
    using caller = new Caller(service)
    await caller.assertServes(ids)
  })

  it('has room to delete all points by filter, a part with each request', async (context) => {
    using disk = SmallDisk.mount(24 * mebibyte)
    if (disk === undefined) return context.skip(noSmallDisk)
    await using service = await startTestService({ DATA_DIR: join(disk.path, 'data') })
    using caller = new Caller(service)
    // Until neither a batch nor a point fits: more pages than the reserve for deletions has room for.
    const payload = { content_type: 'Text', content: 'x'.repeat(1000) }
    let points = 0
    for (const size of [500, 20, 1]) {
      const vectors = Array.from({ length: size }, (_, index) => ({ vector: [index, 1], payload }))
      while ((await caller.post('/points/batch', { vectors })).status === 0) points += size
    }
    assert.ok(points > 4000, `${points} points fit`)
    let deleted = 0
    let more = true
    while (more) {
      const answer = await caller.post('/points/delete', { everything: true })
      assert.equal(answer.status, 0, answer.text)
      const { changed, more: areMore } = JSON.parse(answer.text)
      assert.ok(changed > 0)
      deleted += changed
      more = areMore
    }
    assert.equal(deleted, points)
    assert.equal((await caller.post('/points', { vector: [0, 1], payload })).status, 0, 'accepted again')
  })
})

/** What LMDB writes, test/crash/io-faults.test.ts lets fail: native code makes those calls. */
describe('a broken disk', () => {
  const faults: readonly Pick<DiskFault, 'operation' | 'after'>[] = [
    { operation: 'write', after: 0 },
    { operation: 'fdatasync', after: 3 },
  ]
  for (const { operation, after } of faults) {
    it(`that fails ${operation} ${after + 1} of the vectors stops writes but not reads, and loses nothing`, async () => {
      using disk = new FailingDisk()
      await stopsWritesAndLosesNothing(disk, { operation, code: 'EIO', times: 1, after })
      assert.equal(disk.left, 0)
    })
  }
})

describe('a file system that becomes read-only', () => {
  it('stops writes but not reads, and the service ends without an error', async (context) => {
    using disk = SmallDisk.mountExt4(64 * mebibyte)
    if (disk === undefined) return context.skip('mounting an ext4 file system needs root')
    const ids = new Set<string>()
    await using service = await ChildService.start(join(disk.path, 'data'))
    using caller = new Caller(service)
    for (let count = 0; count < 5; count += 1) ids.add((await caller.insertHttp('before')).id)
    await caller.assertServes(ids)
    disk.failToReadOnly()
    await insertUntilRefused(caller, 'read-only', ids)
    await caller.untilReadable([...ids][0]!)
    await caller.assertServes(ids)
    await caller.assertReports()
    assert.equal((await caller.post('/snapshots', {})).status, 0)
    assert.equal(await service.stop(), 0)
  })
})

describe('a data directory that is gone', () => {
  it('stops writes at the first fault of the disk, but not reads', async () => {
    using disk = new FailingDisk()
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    await using service = await ChildService.start(dataDir, disk.execArgv)
    using caller = new Caller(service)
    const ids = new Set<string>()
    for (let count = 0; count < 5; count += 1) ids.add((await caller.insertHttp('before')).id)
    await caller.assertServes(ids)
    renameSync(dataDir, join(directory.path, 'elsewhere'))
    disk.fail({ operation: 'fdatasync', code: 'EIO' })
    await insertUntilRefused(caller, 'gone', ids)
    await caller.untilReadable([...ids][0]!)
    await caller.assertServes(ids)
    await caller.assertReports()
  })
})

/** The scenario of every fault: points are stored, the disk fails, and the service restarts. */
async function stopsWritesAndLosesNothing(disk: FailingDisk, fault: DiskFault): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'vicinal-broken-disk-'))
  const ids = new Set<string>()
  try {
    {
      await using sound = await startTestService({ DATA_DIR: dataDir })
      using caller = new Caller(sound)
      for (let count = 0; count < 5; count += 1) ids.add((await caller.insertHttp('before')).id)
    }
    {
      await using faulty = await ChildService.start(dataDir, disk.execArgv)
      using caller = new Caller(faulty)
      await caller.assertServes(ids)
      disk.fail(fault)
      const refused = await insertUntilRefused(caller, 'until it breaks', ids)
      assert.equal(refused.http.status, internal.http, refused.http.text)
      assert.equal(refused.grpc.status, internal.grpc, refused.grpc.text)
      assert.match(refused.grpc.text, /the disk failed: writes are stopped until the server is restarted/)
      const [first] = ids
      assert.equal(await caller.deleteHttp(first!), internal.http)
      assert.equal(await caller.deleteGrpc(first!), internal.grpc)
      const readiness = await fetch(`${faulty.httpUrl}/readyz`)
      assert.equal(readiness.status, 200)
      assert.match(await readiness.text(), /^ready, but the disk failed: changes are refused until a restart/)
      await caller.untilReadable(first!)
      await caller.assertServes(ids)
      await caller.assertReports()
      assert.equal((await caller.post('/snapshots', {})).status, 0)
    }
    await using restarted = await startTestService({ DATA_DIR: dataDir })
    using caller = new Caller(restarted)
    await caller.assertServes(ids)
    assert.equal((await caller.insertGrpc('after')).status, 0)
  } finally {
    rmSync(dataDir, { recursive: true })
  }
}
