import assert from 'node:assert/strict'
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { readConfig } from '../../src/config.ts'
import { snapshotOfData, storedCollections } from '../../src/service/stored-data.ts'
import type { SnapshotPoint } from '../../src/storage/snapshot/snapshot-reader.ts'
import { assertEnded, Command, run, ServerProcess } from './process.ts'
import { seededRandom } from './random.ts'
import { startTestService } from './service.ts'
import { readSnapshot } from './snapshots.ts'

/** What is stored, by the name of the collection. */
type State = ReadonlyMap<string, { readonly declared: unknown; readonly points: Points }>
type Points = ReadonlyMap<string, SnapshotPoint>

/**
 * A service whose points change at random, and its backups. What is stored is noted after changes.
 *
 * @see test/backup.test.ts, test/product/backup-s3.test.ts
 */
export class BackupCampaign implements AsyncDisposable {
  readonly #seed: number
  readonly #random: () => number
  #service: AsyncDisposable & { readonly httpUrl: string }
  #client: VectorClient
  readonly #dataDir: string | undefined
  readonly #place: string
  readonly #environment: Readonly<Record<string, string>>
  /** The ids in each collection. */
  readonly #ids = new Map<string, string[]>([['default', []]])
  /** What was stored at a time. */
  readonly #moments: { readonly timeMs: number; readonly state: State }[] = []
  /** How many of them backups have, and which is the first. */
  #restorable = 0
  #first = 0

  private constructor(
    seed: number,
    service: AsyncDisposable & { readonly httpUrl: string },
    place: string,
    environment: Record<string, string>,
    dataDir?: string,
  ) {
    this.#dataDir = dataDir
    this.#seed = seed
    this.#random = seededRandom(seed)
    this.#service = service
    this.#client = createHttpClient({ baseUrl: service.httpUrl })
    this.#place = place
    this.#environment = environment
  }

  /** @param environment of the commands */
  static async start(
    seed: number,
    place: string,
    environment: Record<string, string> = {},
  ): Promise<BackupCampaign> {
    return new BackupCampaign(seed, await startTestService(), place, environment)
  }

  /** With a service in a process of its own, which `restart` can kill. */
  static async startProcess(seed: number, place: string, dataDir: string): Promise<BackupCampaign> {
    return new BackupCampaign(seed, await ServerProcess.start(dataDir), place, {}, dataDir)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  /** Changes some points and collections. */
  async change(): Promise<void> {
    for (let count = 1 + this.#below(8); count > 0; count -= 1) {
      await this.#changeOnce()
      if (this.#below(2) === 0) await this.#note()
      // The next change has a later time.
      else await delay(2)
    }
  }

  /** Kills the service while it stores points, and starts another one over the same data. */
  async restart(): Promise<void> {
    const service = this.#service as ServerProcess
    const points = Array.from({ length: 30 }, () => this.#point())
    const inserts = points.map((point) => this.#client.insert(point).catch(() => {}))
    await delay(this.#random() * 20)
    service.command.kill('SIGKILL')
    await Promise.all([service.command.ended, ...inserts])
    this.#service = await ServerProcess.start(this.#dataDir!)
    this.#client = createHttpClient({ baseUrl: this.#service.httpUrl })
    const state = await this.#note()
    this.#ids.set('default', [...state.get('default')!.points.keys()])
  }

  async #changeOnce(): Promise<void> {
    const names = [...this.#ids.keys()]
    const name = names[this.#below(names.length)]!
    const ids = this.#ids.get(name)!
    const points = this.#client.collection(name)
    const id = ids[this.#below(ids.length)]
    const kind = this.#below(16)
    if (kind === 0 && names.length < 4) {
      const added = `c${this.#below(3)}`
      if (!this.#ids.has(added)) this.#ids.set(added, [])
      await this.#client.collections.put(added, {})
    } else if (kind === 1 && name !== 'default') {
      await this.#client.collections.delete(name)
      this.#ids.delete(name)
    } else if (kind === 2) {
      await this.#client.collections.setAliases({ set: { [`alias${this.#below(2)}`]: name } })
    } else if (kind < 6 || id === undefined) {
      const count = 1 + this.#below(kind === 5 ? 300 : 10)
      ids.push(...(await points.insertBatch(Array.from({ length: count }, () => this.#point()))))
    } else if (kind < 8) {
      for (const each of ids.splice(this.#below(ids.length), 1 + this.#below(20))) await points.delete(each)
    } else if (kind === 8) {
      await points.put(id, this.#point())
    } else if (kind === 9) {
      await points.patch(id, { vector: this.#vector() })
    } else if (kind === 10) {
      const filter = { number: this.#below(10) }
      await points.updateMatching({ filter, set: { number: this.#below(10) } })
    } else if (kind === 11) {
      // Some of them expire before the end.
      ids.splice(ids.indexOf(id), 1)
      await points.patch(id, { expiresAt: new Date(Date.now() + this.#below(3000)) })
    } else if (kind === 12) {
      await this.#client.collections.put(name, { quotas: { points: 100_000 + this.#below(10) } })
    } else if (kind === 13) {
      await this.#client.collections.put(name, { words: { language: 'english', paths: { content: 1 } } })
    } else {
      await points.patch(id, { set: { number: this.#random() } })
    }
  }

  async backUp(): Promise<void> {
    const state = await this.#note()
    const ended = await run(this.#backup, this.#environment)
    assertEnded(ended, 0, /^default: /)
    assert.doesNotMatch(ended.stderr, /WARNING/)
    this.#noteBackup(ended.stdout, state)
  }

  async backUpTwice(): Promise<void> {
    const state = await this.#note()
    // The second one asks again while the first one reads a snapshot of the same collection.
    const ended = await Promise.all([
      run(this.#backup, this.#environment),
      run(this.#backup, this.#environment),
    ])
    assert.ok(ended.some(({ code }) => code === 0))
    const refusal = /another snapshot is being read|another backup has stored the changes|aborted the changes/
    for (const { code, stdout, stderr } of ended) {
      if (code === 0) this.#noteBackup(stdout, state)
      else assert.match(stderr, refusal)
    }
  }

  /** Kills a backup at a random moment of its work. */
  async killBackup(): Promise<void> {
    const command = new Command(this.#backup, this.#environment)
    await delay(200 + this.#random() * 500)
    command.kill('SIGKILL')
    await command.ended
  }

  /** Restores random moments, and compares them with what was noted. */
  async restoreSome(directory: string, count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const at = this.#first + this.#below(this.#restorable - this.#first)
      const { timeMs, state } = this.#moments[at]!
      const dataDir = `${directory}-${index}`
      const time = new Date(timeMs).toISOString()
      const restore = ['restore', this.#place, '--data-dir', dataDir, '--at', time]
      assertEnded(await run(restore, this.#environment), 0)
      const config = readConfig({}, { dataDir })
      const restored = new Map<string, unknown>()
      for (const info of await storedCollections(config)) {
        const { points } = await readSnapshot(snapshotOfData(config, info.name))
        restored.set(info.name, { declared: declaredOf(info), points: visible(points, timeMs) })
      }
      const expected = [...state].map(([name, { declared, points }]) => {
        return [name, { declared, points: visible(points, timeMs) }] as const
      })
      assert.deepEqual(restored, new Map(expected), `seed ${this.#seed}, moment ${at} of ${time}`)
      rmSync(dataDir, { recursive: true })
    }
    assertEnded(await run(['backup', 'verify', this.#place], this.#environment), 0)
  }

  /** In a directory: changes a byte of each object that the newest backup needs, one at a time. */
  async assertDamageIsFound(): Promise<void> {
    const newest = globSync(join(this.#place, 'backups/*.json')).sort().at(-1)!
    const pieces = globSync(join(this.#place, 'objects/*'))
    const { collections, parent, changes } = JSON.parse(readFileSync(newest, 'utf8')) as {
      readonly collections: readonly { readonly pieces: readonly string[] }[]
      readonly parent?: string
      readonly changes: { readonly pieces: readonly string[] }
    }
    const restore = ['restore', this.#place, '--data-dir', join(this.#place, 'never')]
    const needed = [newest, ...(parent === undefined ? [] : [join(this.#place, parent)])]
    for (const { pieces } of collections) needed.push(...pieces.map((name) => join(this.#place, name)))
    assert.ok(pieces.length >= needed.length - 2)
    const changed = changes.pieces.map((name) => join(this.#place, name))
    assert.ok(changed.length > 0)
    for (const file of [...needed, ...changed]) {
      const bytes = readFileSync(file)
      const damaged = Buffer.from(bytes)
      damaged[this.#below(bytes.length)]! ^= 1
      const kinds = [() => writeFileSync(file, damaged), () => rmSync(file)]
      for (const damage of file === newest ? kinds.slice(0, 1) : kinds) {
        damage()
        const refused = await run(changed.includes(file) ? ['backup', 'verify', this.#place] : restore)
        assertEnded(refused, 1, /the backup cannot be used: .* does not match its checksum|does not exist/)
        writeFileSync(file, bytes)
      }
    }
  }

  get #backup(): string[] {
    return ['backup', this.#place, '--http', this.#service.httpUrl]
  }

  async #note(): Promise<State> {
    const timeMs = Date.now()
    const state = await this.#state()
    this.#moments.push({ timeMs, state })
    await delay(2)
    return state
  }

  /** Notes what a backup that is complete must have. */
  #noteBackup(stdout: string, state: State): void {
    const timeMs = Date.parse(/^\S+Z(?=:)/m.exec(stdout)![0])
    if (this.#restorable === 0) this.#first = this.#moments.length
    this.#moments.push({ timeMs, state })
    this.#restorable = this.#moments.length
  }

  async #state(): Promise<State> {
    const state = new Map<string, { readonly declared: unknown; readonly points: Points }>()
    for (const info of await this.#client.collections.list()) {
      const url = `${this.#service.httpUrl}/collections/${info.name}/snapshots`
      const { body } = await fetch(url, { method: 'POST' })
      const { points } = await readSnapshot(body as unknown as AsyncIterable<Uint8Array>)
      state.set(info.name, { declared: declaredOf(info), points })
    }
    return state
  }

  #point() {
    const content = 'x'.repeat(this.#below(300))
    const attributes = { number: this.#below(10) }
    return { vector: this.#vector(), payload: { contentType: 'Text' as const, content, attributes } }
  }

  #vector(): number[] {
    return [this.#random(), -this.#random(), this.#random()]
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }
}

/** What a collection has besides its points. */
function declaredOf(info: {
  readonly dimension?: number | undefined
  readonly quotas?: unknown
  readonly words?: unknown
  readonly aliases: readonly string[]
}): unknown {
  const { dimension, quotas, words, aliases } = info
  return { dimension, quotas, hasWords: words !== undefined, aliases: aliases.toSorted() }
}

/** The points that have not expired at a time. */
function visible(points: Points, timeMs: number): Points {
  const isVisible = ({ payload: { expiresAtUs = Number.POSITIVE_INFINITY } }: SnapshotPoint): boolean =>
    expiresAtUs > timeMs * 1000
  return new Map([...points].filter(([, point]) => isVisible(point)).sort(([a], [b]) => (a < b ? -1 : 1)))
}
