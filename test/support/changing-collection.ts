import assert from 'node:assert/strict'
import { applyPatch } from '../../src/base/attribute-patch.ts'
import type { AttributeValue } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import { newId } from '../../src/base/ids.ts'
import type { NewPoint, OnConflict, Patch, Payload, Point, Precondition } from '../../src/base/point.ts'
import type { Database, InsertOptions, ListPage } from '../../src/engine/database.ts'
import { matches } from './plain-filter.ts'
import { randomVector, seededRandom } from './random.ts'

const dimension = 8
const everything: Filter = { kind: 'all', of: [] }

/** A point as the model has it; the version as the database said. */
interface Held {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: Payload
  readonly version: number
}

/**
 * Changes a collection at random, and holds it against a list of points in the order of their insertion, which has the
 * meaning of every operation in plain words.
 */
export class ChangingCollection {
  /** In microseconds since 1970, for the collection. */
  nowUs = 1_790_000_000_000_000
  readonly #random: () => number
  #held: readonly Held[] = []
  /** Ids of points, and of some that are gone or never were. */
  readonly #ids: string[] = Array.from({ length: 60 }, newId)
  #highestVersion = 0

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  get size(): number {
    return this.#visible.length
  }

  get #visible(): readonly Held[] {
    return this.#held.filter(
      ({ payload: { expiresAtUs = Number.POSITIVE_INFINITY } }) => expiresAtUs > this.nowUs,
    )
  }

  async change(database: Database): Promise<void> {
    this.#held = this.#visible
    const kind = this.#below(12)
    if (kind < 3) await this.#insert(database)
    else if (kind < 5) await this.#put(database)
    else if (kind < 8) await this.#patch(database)
    else if (kind < 9) await this.#remove(database)
    else if (kind < 10) await this.#changeByFilter(database)
    else this.nowUs += this.#below(3) * 1_000_000
  }

  async #insert(database: Database): Promise<void> {
    const points = Array.from({ length: 1 + this.#below(6) }, () => this.#newPoint())
    const options: InsertOptions = { onError: this.#one(['abort', 'continue', undefined]) }
    const expected = this.#expectedInsert(points)
    const first = expected.find((outcome) => typeof outcome === 'object')
    if (first !== undefined && options.onError !== 'continue') {
      await assert.rejects(database.insert(points, options), { reason: first.reason })
      return
    }
    const { ids, errors } = await database.insert(points, options)
    assert.deepEqual(
      errors.map(({ index, error: { reason } }) => ({ index, reason })),
      expected.flatMap((outcome, index) =>
        typeof outcome === 'object' ? [{ index, reason: outcome.reason }] : [],
      ),
    )
    for (const [index, { vector, payload }] of points.entries()) {
      const id = ids[index] ?? null
      const outcome = expected[index]!
      assert.equal(id === null, typeof outcome === 'object')
      if (id === null) continue
      assert.equal(id, points[index]!.id ?? id)
      if (outcome === 'stored')
        this.#hold({ id, vector, payload, version: await this.#versionNow(database, id) })
    }
  }

  #expectedInsert(points: readonly NewPoint[]): readonly ('stored' | 'skipped' | { reason: string })[] {
    const given = new Set<string>()
    return points.map(({ id, onConflict = 'error' }) => {
      if (id === undefined) return 'stored'
      if (given.has(id)) return { reason: 'invalid_argument' }
      given.add(id)
      if (!this.#visible.some((each) => each.id === id) || onConflict === 'replace') return 'stored'
      return onConflict === 'skip' ? 'skipped' : { reason: 'already_exists' }
    })
  }

  async #put(database: Database): Promise<void> {
    const [id, { vector, payload }, when] = [this.#one(this.#ids), this.#newPoint(), this.#condition()]
    const before = this.#find(id)
    const put = database.put(id, { vector, payload }, when && this.#for(before, when))
    if (when !== undefined && !isMet(this.#for(before, when), before)) {
      await assert.rejects(put, { reason: 'precondition_failed' })
      return
    }
    const { version, created } = await put
    assert.equal(created, before === undefined)
    this.#hold({ id, vector, payload, version })
  }

  async #patch(database: Database): Promise<void> {
    const [id, patch, when] = [this.#one(this.#ids), this.#newPatch(), this.#condition()]
    const before = this.#find(id)
    const patched = database.patch(id, patch, when && this.#for(before, when))
    if (before === undefined) {
      await assert.rejects(patched, { reason: 'not_found', message: 'Point not found' })
      return
    }
    if (when !== undefined && !isMet(this.#for(before, when), before)) {
      await assert.rejects(patched, { reason: 'precondition_failed' })
      return
    }
    this.#hold(after(before, patch, (await patched).version))
  }

  async #remove(database: Database): Promise<void> {
    const id = this.#one(this.#ids)
    assert.equal(await database.remove(id), this.#find(id) !== undefined)
    this.#held = this.#held.filter((each) => each.id !== id)
  }

  async #changeByFilter(database: Database): Promise<void> {
    const filter = this.#filter()
    const { vector: _, ...patch } = this.#newPatch()
    const change = this.#below(3) === 0 ? 'delete' : patch
    const limit = this.#one([undefined, 1, 5])
    const dryRun = this.#below(4) === 0
    const matching = this.#visible.filter((point) => matches(filter, point))
    const chosen = matching.slice(0, limit)
    assert.deepEqual(await database.changeByFilter({ filter, change, limit, dryRun }), {
      changed: chosen.length,
      more: matching.length > chosen.length,
    })
    if (dryRun) return
    for (const point of chosen) {
      if (change === 'delete') this.#held = this.#held.filter(({ id }) => id !== point.id)
      else this.#hold(after(point, change, await this.#versionNow(database, point.id)))
    }
  }

  /** Everything that can be read is as the model has it. */
  async check(database: Database): Promise<void> {
    const visible = this.#visible
    for (const id of this.#ids) {
      const held = this.#find(id)
      assert.deepEqual(plain(await database.get(id)), plain(held), `point ${id}`)
    }
    for (const filter of [undefined, this.#filter(), this.#filter()]) {
      const matching = visible.filter((point) => matches(filter ?? everything, point))
      assert.equal(await database.count(filter), matching.length)
      assert.deepEqual(await this.#list(database, filter), matching.map(plain))
      await this.#checkFacets(database, filter, matching)
      await this.#checkSearch(database, filter, matching)
    }
  }

  async #list(database: Database, filter: Filter | undefined): Promise<unknown[]> {
    const include = { distance: false, payload: true, vector: true, version: true }
    const listed: ListPage['points'][number][] = []
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const page: ListPage = await database.list({ filter, limit: 1 + this.#below(20), cursor, include })
      listed.push(...page.points)
      cursor = page.nextCursor
    }
    return listed.map((point) => plain(point as Held))
  }

  async #checkFacets(
    database: Database,
    filter: Filter | undefined,
    matching: readonly Held[],
  ): Promise<void> {
    const facets = await database.facets({ filter, paths: ['color'], limit: 10 })
    const counts = new Map<AttributeValue, number>()
    for (const { payload } of matching) {
      const color = payload.attributes?.get('color')
      if (color !== undefined) counts.set(color, (counts.get(color) ?? 0) + 1)
    }
    assert.deepEqual(new Map(facets.get('color')!.map(({ value, count }) => [value, count])), counts)
  }

  async #checkSearch(
    database: Database,
    filter: Filter | undefined,
    matching: readonly Held[],
  ): Promise<void> {
    if (database.dimension === undefined) return
    const vector = randomVector(this.#random, dimension, 'continuous')
    const include = { distance: true, payload: true, vector: true, version: true }
    const query = { vector, metric: 'Manhattan', limit: 200, ef: 200, filter, exact: true, include } as const
    const { ids, details } = await database.search([query])
    const found = ids.strings()[0]!.map((id, rank) => plain({ id, ...details[0]![rank] } as Held))
    assert.deepEqual(new Set(found.map(({ id }) => id)), new Set(matching.map(({ id }) => id)))
    for (const point of found) assert.deepEqual(point, plain(matching.find(({ id }) => id === point.id)))
  }

  /** Puts a point in its place: that of the one with its id, or the last. */
  #hold(point: Held): void {
    this.#highestVersion = Math.max(this.#highestVersion, point.version)
    if (!this.#ids.includes(point.id)) this.#ids.push(point.id)
    const at = this.#held.findIndex(({ id }) => id === point.id)
    this.#held = at === -1 ? [...this.#held, point] : this.#held.with(at, point)
  }

  /** The version that the database names, which has to be a new one; of a point that has expired at once, nobody can say. */
  async #versionNow(database: Database, id: string): Promise<number> {
    const version = (await database.get(id))?.version
    if (version === undefined) return 0
    assert.ok(version > (this.#find(id)?.version ?? 0), 'versions grow')
    return version
  }

  #find(id: string): Held | undefined {
    return this.#visible.find((point) => point.id === id)
  }

  #newPoint(): NewPoint {
    const isChosen = this.#below(2) === 0
    return {
      vector: randomVector(this.#random, dimension, 'continuous'),
      payload: this.#payload(),
      id: isChosen ? this.#one(this.#ids) : undefined,
      onConflict: isChosen
        ? this.#one<OnConflict | undefined>(['error', 'replace', 'skip', undefined])
        : undefined,
    }
  }

  #payload(): Payload {
    const color = this.#one([undefined, 'red', 'green', 'blue'])
    const attributes = new Map<string, AttributeValue>([['price', this.#below(10)]])
    if (color !== undefined) attributes.set('color', color)
    return {
      contentType: this.#one(['Text', 'Image']),
      content: `content ${this.#below(1000)}`,
      ...(this.#below(3) === 0 ? {} : { attributes }),
      ...(this.#below(3) === 0 ? { expiresAtUs: this.#expiry() } : {}),
    }
  }

  /** Some of them have passed. */
  #expiry(): number {
    return this.nowUs + (this.#below(8) - 1) * 1_000_000
  }

  #newPatch(): Patch {
    const patch: Patch[] = [
      { set: new Map([['color', this.#one(['red', 'green'])]]) },
      { set: new Map([['price', this.#below(10)]]), unset: ['color'] },
      { content: `patched ${this.#below(1000)}` },
      { expiresAtUs: this.#expiry() + 2_000_000 },
      { expiresAtUs: null },
      { vector: randomVector(this.#random, dimension, 'continuous'), contentType: 'Image' },
    ]
    return this.#one(patch)
  }

  #condition(): Precondition | 'version' | 'stale' | undefined {
    return this.#one([
      undefined,
      undefined,
      'version',
      'stale',
      { kind: 'absent' },
      { kind: 'filter', filter: this.#filter() },
    ])
  }

  /** The condition with the version of a point. */
  #for(point: Held | undefined, when: Precondition | 'version' | 'stale'): Precondition {
    if (typeof when === 'object') return when
    return { kind: 'version', version: (point?.version ?? 1) - Number(when === 'stale') }
  }

  #filter(): Filter {
    const filters: Filter[] = [
      everything,
      { kind: 'condition', path: 'color', test: { op: 'in', values: [this.#one(['red', 'blue'])] } },
      { kind: 'condition', path: 'price', test: { op: 'range', bounds: { gte: this.#below(10) } } },
      { kind: 'not', of: { kind: 'condition', path: 'color', test: { op: 'exists' } } },
      { kind: 'condition', path: '$content_type', test: { op: 'in', values: ['Image'] } },
      { kind: 'condition', path: '$expires_at', test: { op: 'exists' } },
      {
        kind: 'condition',
        path: '$version',
        test: { op: 'range', bounds: { gt: this.#highestVersion - this.#below(50) } },
      },
    ]
    return this.#one(filters)
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  #one<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)]!
  }
}

function isMet(when: Precondition, point: Held | undefined): boolean {
  if (when.kind === 'absent') return point === undefined
  if (point === undefined) return false
  return when.kind === 'version' ? point.version === when.version : matches(when.filter, point)
}

function after(point: Held, patch: Patch, version: number): Held {
  const { vector = point.vector } = patch
  return { ...point, vector, payload: applyPatch(point.payload, patch), version }
}

/** In a form in which equal points are deeply equal. */
function plain(point: Point | undefined): { readonly id: string } & Record<string, unknown> {
  if (point === undefined) return { id: 'none' }
  const { id, vector, payload, version } = point
  const { contentType, content, attributes = new Map(), expiresAtUs } = payload
  const sorted = [...attributes].sort(([one], [other]) => (one < other ? -1 : 1))
  return { id, vector: [...vector], contentType, content, attributes: sorted, expiresAtUs, version }
}
