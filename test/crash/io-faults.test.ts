import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { DatabaseError } from '../../src/base/errors.ts'
import { createLogger } from '../../src/base/log.ts'
import { insertIds } from '../support/insert-ids.ts'
import { randomVector, seededRandom } from '../support/random.ts'
import { startTestService } from '../support/service.ts'
import { noSmallDisk, SmallDisk } from '../support/small-disk.ts'
import { insertAll, newPoints } from './new-points.ts'
import type { Note } from './notes.ts'
import { Oracle, type OraclePoint } from './oracle.ts'
import { openPoints } from './points.ts'
import { compareWithNotes } from './power-loss.ts'
import { Clients, CrashServer } from './server.ts'
import { canTrace, FailingCalls, filesOf, noStrace } from './strace.ts'
import { verify } from './verify.ts'

/**
 * Disk and system errors of the whole service, also in calls that LMDB makes. test/disk-faults.test.ts lets Node's own
 * calls fail; `npm run test:crash` lets any call fail at any time.
 */

const seed = 20_260_603
const isExact = true
const stopped = /the disk failed: writes are stopped until the server is restarted; reads continue/

/** A data directory with an oracle that records everything that any process over it has acknowledged. */
class Story implements AsyncDisposable {
  readonly dataDir: string
  readonly oracle = new Oracle()
  readonly #random = seededRandom(seed)
  readonly vector = (): Float32Array => randomVector(this.#random, 16, 'continuous')

  private constructor(dataDir: string) {
    this.dataDir = dataDir
  }

  static async begin(dataDir: string): Promise<Story> {
    const story = new Story(dataDir)
    await using points = await openPoints(dataDir, createLogger({ level: 'silent', pretty: false }))
    for (let count = 1; count <= 5; count += 1) {
      await story.#insertWith((stored) => insertIds(points.collection, stored), count)
    }
    return story
  }

  /** Inserts over both transports in turn. */
  async insert({ grpc, http }: Clients, count = 1): Promise<void> {
    const client = this.oracle.acknowledged % 2 === 0 ? grpc : http
    await this.#insertWith((stored) => insertAll(client, stored, {}), count)
  }

  async #insertWith(
    insert: (points: readonly OraclePoint[]) => Promise<readonly string[]>,
    count: number,
  ): Promise<void> {
    const marker = this.oracle.marker()
    const points = newPoints(marker, count, this.#random, this.vector)
    this.oracle.sent(marker, points)
    this.oracle.stored(marker, await insert(points))
  }

  /** Asserts that the service serves exactly the acknowledged data. */
  async check(clients: Clients): Promise<void> {
    await verify(clients, {
      oracle: this.oracle,
      random: this.#random,
      vector: this.vector,
      isExact,
      readsMax: 1000,
    })
  }

  /** Starts a service without faults over the data, checks it, and checks that it accepts writes. */
  async checkAfterRestart(): Promise<void> {
    await using service = await startTestService({ DATA_DIR: this.dataDir, MAX_LIMIT: '1000000' })
    await using clients = new Clients(service)
    await this.check(clients)
    await this.insert(clients)
    await this.check(clients)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.dataDir, { recursive: true, force: true })
  }
}

describe('a disk that fails at the n-th time', { skip: !canTrace() && noStrace, concurrency: 2 }, () => {
  for (const fault of [
    'fdatasync:error=EIO:when=6',
    'writev:error=EIO:when=4',
    'pwrite64:error=EIO:when=6',
  ]) {
    it(`${fault}: writes stop, reads continue, and no failed sync is retried`, async () => {
      await using story = await Story.begin(await temporaryPath())
      using failing = new FailingCalls(filesOf(story.dataDir), fault)
      {
        await using server = new CrashServer(story.dataDir, { wrapper: failing.wrapper })
        const { httpUrl, grpcAddress } = await server.ready
        await using clients = new Clients({ httpUrl, grpcAddress })
        assert.match((await refusedInsert(story, clients)).message, stopped)
        for (const client of [clients.grpc, clients.http]) {
          const { reason, message } = await refusedInsert(story, { grpc: client, http: client } as Clients)
          assert.equal(reason, 'internal')
          assert.match(message, stopped)
          const [id] = story.oracle.live.keys()
          await assert.rejects(client.delete(id!), { reason: 'internal' })
        }
        const ready = await fetch(`${httpUrl}/readyz`)
        assert.equal(ready.status, 200)
        assert.match(await ready.text(), /^ready, but the disk failed: changes are refused until a restart/)
        await story.check(clients)
        for (const [method, path] of [
          ['GET', '/stats'],
          ['GET', '/metrics'],
          ['POST', '/snapshots'],
        ] as const) {
          const answer = await fetch(`${httpUrl}${path}`, { method })
          await answer.arrayBuffer()
          assert.equal(answer.status, 200, path)
        }
        await server.stop()
      }
      assert.ok(failing.hasFailed)
      // After a failed write of its meta page, LMDB restores the old one. Nothing else is tried.
      assert.deepEqual(
        failing.callsAfterwards.filter((line) => /sync\(/.test(line)),
        [],
      )
      await story.checkAfterRestart()
    })
  }

  it('fdatasync:error=ENOSPC: refuses that insert, accepts the next, and both answers hold after a restart', async () => {
    await using story = await Story.begin(await temporaryPath())
    using failing = new FailingCalls(filesOf(story.dataDir), 'fdatasync:error=ENOSPC:when=6')
    {
      await using server = new CrashServer(story.dataDir, { wrapper: failing.wrapper })
      await using clients = new Clients(await server.ready)
      const refusal = await refusedInsert(story, clients)
      assert.match(refusal.message, /is full: free some space or delete points/)
      await story.insert(clients, 7)
      await story.check(clients)
    }
    await story.checkAfterRestart()
  })
})

describe('a disk that fails a checkpoint of the index', {
  skip: !canTrace() && noStrace,
  concurrency: 2,
}, () => {
  for (const fault of ['openat:error=EMFILE', 'fsync:error=EIO']) {
    it(`${fault}: loses no point, and the next start uses an older checkpoint or none`, async () => {
      const directory = await temporaryPath()
      const dataDir = join(directory, 'data')
      try {
        const graph = join(dataDir, 'collections/0/index', 'graph-0-0.bin')
        using failing = new FailingCalls([`${graph}.new`], fault)
        const program = join(import.meta.dirname, 'recorded-run.ts')
        const notesPath = join(directory, 'notes')
        const [command, ...args] = [
          ...failing.wrapper,
          process.execPath,
          program,
          dataDir,
          notesPath,
          String(seed),
        ]
        execFileSync(command!, args, { stdio: ['ignore', 'inherit', 'inherit'] })
        assert.ok(failing.hasFailed)
        const notes = readFileSync(notesPath, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Note)
        assert.ok((await compareWithNotes(dataDir, notes)) > 50)
      } finally {
        await rm(directory, { recursive: true, force: true })
      }
    })
  }
})

describe('a system without free file descriptors', () => {
  it('refuses new connections, serves the open ones, and accepts new ones again later', async (context) => {
    if (spawnSync('prlimit', ['--version']).error) return context.skip('it needs prlimit')
    await using story = await Story.begin(await temporaryPath())
    await using server = new CrashServer(story.dataDir)
    const addresses = await server.ready
    await using clients = new Clients(addresses)
    await story.check(clients)
    const used = readdirSync(`/proc/${server.pid}/fd`).length
    execFileSync('prlimit', ['--pid', String(server.pid), `--nofile=${used + 4}`])
    const crowd = await connectMany(Number(new URL(addresses.httpUrl).port), 40)
    const { grpc } = clients
    await story.insert({ grpc, http: grpc } as Clients, 3)
    await story.check({ grpc, http: grpc } as Clients)
    for (const socket of crowd) socket.destroy()
    await story.insert(clients)
    await story.check(clients)
    assert.equal((await server.stop()).code, 0)
  })

  it('prevents a start with a clear error, and allows one without data loss once some are free', {
    skip: !canTrace() && noStrace,
  }, async () => {
    await using story = await Story.begin(await temporaryPath())
    for (const nth of [1, 2]) {
      using failing = new FailingCalls(filesOf(story.dataDir), `openat:error=EMFILE:when=${nth}`)
      await using server = new CrashServer(story.dataDir, { wrapper: failing.wrapper })
      await assert.rejects(
        server.ready,
        /EMFILE|too many files are open|unable to open database file/i,
        `open ${nth}`,
      )
      assert.notEqual((await server.ended).code, 0)
    }
    await story.checkAfterRestart()
  })
})

describe('a database file that cannot be opened', { skip: !canTrace() && noStrace }, () => {
  for (const [nth, error] of [
    [1, 'EMFILE'],
    [9, 'EMFILE'],
    [1, 'EACCES'],
  ] as const) {
    it(`prevents a start with a clear error when open ${nth} of it fails with ${error}`, async () => {
      await using story = await Story.begin(await temporaryPath())
      using failing = new FailingCalls(
        [join(story.dataDir, 'collections.mdb')],
        `openat:error=${error}:when=${nth}`,
      )
      await using server = new CrashServer(story.dataDir, { wrapper: failing.wrapper })
      await assert.rejects(server.ready, new RegExp(`collections\\.mdb cannot be opened: ${error}`))
      assert.notEqual((await server.ended).code, null)
    })
  }
})

describe('a read-only data directory', () => {
  it('prevents a start with an error that names it, and allows one without data loss once it is writable', async (context) => {
    using disk = SmallDisk.mount(64 * 1024 * 1024)
    if (disk === undefined) return context.skip(noSmallDisk)
    await using story = await Story.begin(join(disk.path, 'data'))
    execFileSync('mount', ['-o', 'remount,ro', disk.path])
    using _ = { [Symbol.dispose]: () => execFileSync('mount', ['-o', 'remount,rw', disk.path]) }
    {
      await using server = new CrashServer(story.dataDir)
      await assert.rejects(server.ready, (error: Error) => {
        assert.ok(error.message.includes(story.dataDir), error.message)
        assert.match(error.message, /read-only|readonly|EROFS/i)
        return true
      })
      assert.notEqual((await server.ended).code, 0)
    }
    execFileSync('mount', ['-o', 'remount,rw', disk.path])
    await story.checkAfterRestart()
  })
})

/** Inserts until an insert is refused, which must happen soon. */
async function refusedInsert(story: Story, clients: Clients): Promise<DatabaseError> {
  for (let attempt = 0; attempt < 30; attempt += 1) {
    try {
      await story.insert(clients)
    } catch (error) {
      if (error instanceof DatabaseError) return error
      throw error
    }
  }
  return assert.fail('the disk accepted every insert')
}

function connectMany(port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').on('error', () => {}))
  return Promise.all(
    sockets.map((socket) => new Promise<Socket>((resolve) => socket.once('connect', () => resolve(socket)))),
  )
}

function temporaryPath(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'vicinal-faults-'))
}
