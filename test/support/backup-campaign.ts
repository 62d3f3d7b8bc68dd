import assert from 'node:assert/strict'
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { readConfig } from '../../src/config.ts'
import { snapshotOfData } from '../../src/service/stored-data.ts'
import { assertEnded, Command, run } from './process.ts'
import { seededRandom } from './random.ts'
import { startTestService, type TestService } from './service.ts'
import { readSnapshot } from './snapshots.ts'

/** The points of each collection by name. */
type State = ReadonlyMap<string, ReadonlyMap<string, unknown>>

/**
 * A service whose points change at random, and its backups. What each backup must have is noted when it is made.
 *
 * @see test/backup.test.ts, test/product/backup-s3.test.ts
 */
export class BackupCampaign implements AsyncDisposable {
  readonly #seed: number
  readonly #random: () => number
  readonly #service: TestService
  readonly #client: VectorClient
  readonly #place: string
  readonly #environment: Readonly<Record<string, string>>
  /** The ids in each collection. */
  readonly #ids = new Map<string, string[]>([['default', []]])
  /** What was stored, by the time after the backup. */
  readonly #moments: { readonly afterMs: number; readonly state: State }[] = []

  private constructor(
    seed: number,
    service: TestService,
    place: string,
    environment: Record<string, string>,
  ) {
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  /** Changes some points and collections. */
  async change(): Promise<void> {
    for (let count = 1 + this.#below(8); count > 0; count -= 1) await this.#changeOnce()
  }

  async #changeOnce(): Promise<void> {
    const names = [...this.#ids.keys()]
    const name = names[this.#below(names.length)]!
    const ids = this.#ids.get(name)!
    const points = this.#client.collection(name)
    const id = ids[this.#below(ids.length)]
    const kind = this.#below(12)
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
    } else {
      await points.patch(id, { set: { number: this.#random() } })
    }
  }

  async backUp(): Promise<void> {
    const state = await this.#state()
    assertEnded(await run(this.#backup, this.#environment), 0, /^default: /)
    await this.#note(state)
  }

  async backUpTwice(): Promise<void> {
    const state = await this.#state()
    // The second one asks again while the first one reads a snapshot of the same collection.
    const ended = await Promise.all([
      run(this.#backup, this.#environment),
      run(this.#backup, this.#environment),
    ])
    assert.ok(ended.some(({ code }) => code === 0))
    for (const { code, stderr } of ended)
      if (code !== 0) assert.match(stderr, /another snapshot is being read/)
    await this.#note(state)
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
      const at = this.#below(this.#moments.length)
      const { afterMs, state } = this.#moments[at]!
      const dataDir = `${directory}-${index}`
      const time = new Date(afterMs).toISOString()
      const restored = await run(
        ['restore', this.#place, '--data-dir', dataDir, '--at', time],
        this.#environment,
      )
      assertEnded(restored, 0)
      const config = readConfig({}, { dataDir })
      for (const [name, points] of state) {
        const found = await readSnapshot(snapshotOfData(config, name))
        assert.deepEqual(
          new Map([...found.points].sort()),
          points,
          `seed ${this.#seed}, moment ${at}, ${name}`,
        )
      }
      rmSync(dataDir, { recursive: true })
    }
    assertEnded(await run(['backup', 'verify', this.#place], this.#environment), 0)
  }

  /** In a directory: changes a byte of each object that the newest backup needs, one at a time. */
  async assertDamageIsFound(): Promise<void> {
    const newest = globSync(join(this.#place, 'backups/*.json')).sort().at(-1)!
    const pieces = globSync(join(this.#place, 'objects/*'))
    const { collections, parent } = JSON.parse(readFileSync(newest, 'utf8')) as {
      readonly collections: readonly { readonly pieces: readonly string[] }[]
      readonly parent?: string
    }
    const needed = [newest, ...(parent === undefined ? [] : [join(this.#place, parent)])]
    for (const { pieces } of collections) needed.push(...pieces.map((name) => join(this.#place, name)))
    assert.ok(pieces.length >= needed.length - 2)
    for (const file of needed) {
      const bytes = readFileSync(file)
      const damaged = Buffer.from(bytes)
      damaged[this.#below(bytes.length)]! ^= 1
      const kinds = [() => writeFileSync(file, damaged), () => rmSync(file)]
      for (const damage of file === newest ? kinds.slice(0, 1) : kinds) {
        damage()
        const dataDir = join(this.#place, 'never')
        const refused = await run(['restore', this.#place, '--data-dir', dataDir])
        assertEnded(refused, 1, /the backup cannot be used: .* does not match its checksum|does not exist/)
        writeFileSync(file, bytes)
      }
    }
  }

  get #backup(): string[] {
    return ['backup', this.#place, '--http', this.#service.httpUrl]
  }

  async #note(state: State): Promise<void> {
    this.#moments.push({ afterMs: Date.now(), state })
    // The next backup has a later time.
    await delay(2)
  }

  async #state(): Promise<State> {
    const state = new Map<string, ReadonlyMap<string, unknown>>()
    for (const name of this.#ids.keys()) {
      const url = `${this.#service.httpUrl}/collections/${name}/snapshots`
      const { body } = await fetch(url, { method: 'POST' })
      const { points } = await readSnapshot(body as unknown as AsyncIterable<Uint8Array>)
      state.set(name, new Map([...points].sort()))
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
