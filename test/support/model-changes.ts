import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { type AttributeValue, attributeToJson, type Scalar } from '../../src/base/attributes.ts'
import type { Patch, Payload } from '../../src/base/point.ts'
import type { Include } from '../../src/client/client.ts'
import { type ModelPoint, patched } from './model.ts'
import type { ModelHit, ModelNewPoint } from './model-client.ts'
import { type Comparison, describe, type StoredPoint } from './model-comparison.ts'
import { valuesAt } from './plain-filter.ts'
import { suitesRunInCluster } from './service.ts'

/** The relative frequency of each operation beyond the contract, in the same unit as those of the contract. */
export const changeWeights = {
  insertOwn: 60,
  insertEach: 40,
  put: 90,
  patch: 140,
  changeByFilter: 30,
  searchHits: 160,
  count: 50,
  listAll: 20,
  facets: 30,
  advance: 30,
} as const

/** The operations beyond the contract, on points with attributes, caller-chosen ids, versions and expiry. */
export class ModelChanges {
  readonly #compared: Comparison

  constructor(compared: Comparison) {
    this.#compared = compared
  }

  /** All or nothing. */
  async insertOwn(): Promise<void> {
    const { inputs, model, client } = this.#compared
    // Clusters refuse several ids that must not exist.
    const own = inputs.list(suitesRunInCluster ? 1 : 3, () => inputs.ownPoint())
    const points = [...own, ...inputs.list(1, () => inputs.newPoint())]
    const outcomes = model.outcomes(points)
    const fault = outcomes.find((outcome) => outcome !== 'stored' && outcome !== 'skipped')
    const inserted =
      points.length === 1 ? client.insert(points[0]!).then((id) => [id]) : client.insertBatch(points)
    if (fault !== undefined) return await this.#compared.isRefused(inserted, fault)
    await this.#hasStored(points, outcomes, await inserted)
  }

  /** Valid points are stored; the answer names the others. */
  async insertEach(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const points = inputs.list(6, () => {
      const point = inputs.random() < 0.7 ? inputs.ownPoint() : inputs.newPoint()
      return model.dimension === undefined || inputs.random() < 0.9
        ? point
        : { ...point, vector: [...Array.from(point.vector), 1] }
    })
    const outcomes = model.outcomes(points)
    const { ids, errors } = await client.insertEach(points)
    const expected = outcomes.flatMap((reason, index) =>
      reason === 'stored' || reason === 'skipped' ? [] : [{ index, reason }],
    )
    this.#compared.same(errors, expected)
    await this.#hasStored(points, outcomes, ids)
  }

  async #hasStored(
    points: readonly ModelNewPoint[],
    outcomes: readonly string[],
    ids: readonly (string | null)[],
  ): Promise<void> {
    this.#compared.same(ids.length, points.length)
    const stored: StoredPoint[] = []
    for (const [index, point] of points.entries()) {
      const id = ids[index] ?? null
      if (point.id === undefined && id !== null) this.#compared.isNewId(id)
      else
        this.#compared.same(
          id,
          outcomes[index] === 'stored' || outcomes[index] === 'skipped' ? point.id : null,
        )
      if (outcomes[index] === 'stored') stored.push({ ...point, id: id! })
    }
    await this.#compared.hasStored(stored)
  }

  async put(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const id = inputs.writtenId()
    const [point, when] = [inputs.newPoint(), inputs.when(id)]
    this.#compared.doing = JSON.stringify(when)
    const put = client.put(inputs.inSomeCase(id), point, when)
    if (!model.isMet(id, when)) return await this.#compared.isRefused(put, 'precondition_failed')
    const { version, created } = await put
    this.#compared.same(created, !model.has(id))
    await this.#hasVersion({ ...point, id }, version)
  }

  async patch(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const id = inputs.writtenId()
    const [patch, when, before] = [inputs.patch(), inputs.when(id), model.get(id)]
    this.#compared.doing = JSON.stringify([patch, when])
    const answer = client.patch(inputs.inSomeCase(id), patch, when)
    if (before === undefined) return await this.#compared.isRefused(answer, 'not_found')
    if (!model.isMet(id, when)) return await this.#compared.isRefused(answer, 'precondition_failed')
    const payload = patched(before.payload, patch)
    if (payload === undefined) return await this.#compared.isRefused(answer, 'invalid_argument')
    const { version } = await answer
    await this.#hasVersion(
      {
        vector: patch.vector ?? before.vector,
        payload,
        id,
        keepsVector: patch.vector === undefined,
      },
      version,
    )
  }

  /** The version in the answer must be the stored one. A point that expired immediately has none. */
  async #hasVersion(point: StoredPoint, version: number): Promise<void> {
    const { model } = this.#compared
    await this.#compared.hasStored([point])
    const stored = model.get(point.id)
    if (stored !== undefined) this.#compared.same(stored.version, version)
  }

  async changeByFilter(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const filter = inputs.filter()
    const patch = inputs.random() < 0.8 ? inputs.attributePatch(true) : { expiresAtUs: inputs.expiry() }
    const change = inputs.random() < 0.3 ? 'delete' : patch
    const limit = inputs.pick([undefined, 1, 5, 5])
    const dryRun = inputs.random() < 0.2
    this.#compared.doing = JSON.stringify([filter, change, limit, dryRun])
    const matching = model.matching(filter)
    const { chosen, looked } = chosenOf(matching, limit, dryRun ? 'delete' : change)
    this.#compared.same(await client.changeByFilter({ filter, change, limit, dryRun }), {
      changed: chosen.length,
      more: looked < matching.length,
    })
    if (dryRun) for (const { id } of chosen) await this.#compared.isThere(id)
    else if (change === 'delete') for (const { id } of chosen) model.delete(id)
    else
      await this.#compared.hasStored(
        chosen.map((point) => ({
          ...point,
          payload: patched(point.payload, change)!,
          keepsVector: true,
        })),
      )
  }

  async searchHits(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const query = inputs.wideQuery()
    const include = inputs.pick<Include>([
      { distance: true, payload: true, vector: true, version: true },
      { distance: true },
      { payload: true, version: true },
    ])
    this.#compared.doing = describe(query)
    const hits = await client.searchHits(query, include)
    this.#compared.isAnswer(
      query,
      hits.map(({ id }) => id),
    )
    const distances = new Map(model.ranked(query).map(({ id, distance }) => [id, distance]))
    for (const { distance, ...hit } of hits) {
      this.#compared.same(hit, selected(model.get(hit.id)!, include))
      if (include.distance) this.#isNear(distance, distances.get(hit.id)!, query.metric === 'Cosine')
    }
  }

  /** Sums are exact, but quotients may be rounded differently. */
  #isNear(distance: number | undefined, expected: number, isRounded: boolean): void {
    const difference = Math.abs((distance ?? Number.NaN) - expected)
    assert.ok(difference <= (isRounded ? 1e-9 : 0), `a distance is ${distance}, not ${expected}`)
  }

  async count(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const filter = inputs.random() < 0.2 ? undefined : inputs.filter()
    this.#compared.doing = JSON.stringify(filter)
    this.#compared.same(await client.count(filter), model.matching(filter).length)
  }

  async listAll(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const filter = inputs.random() < 0.3 ? undefined : inputs.filter()
    const limit = 1 + Math.floor(model.size / 20) + inputs.below(20)
    this.#compared.doing = JSON.stringify([filter, limit])
    const include = { payload: true, vector: true, version: true }
    const expected = model.matching(filter).map((point) => selected(point, include))
    this.#compared.same(await client.listAll(filter, limit), expected)
  }

  async facets(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const filter = inputs.random() < 0.3 ? undefined : inputs.filter()
    const paths = [...new Set([inputs.path(), inputs.path()])]
    this.#compared.doing = JSON.stringify([filter, paths])
    const found = await client.facets(filter, paths)
    this.#compared.same([...found.keys()].sort(), [...paths].sort())
    for (const [path, counts] of found) {
      const texts = counts.map(({ value, count }): [string, number] => [attributeToJson(value), count])
      this.#compared.same(new Map(texts), countsOf(model.matching(filter), path))
      this.#compared.same(
        counts.map(({ count }) => count),
        counts.map(({ count }) => count).sort((a, b) => b - a),
      )
    }
  }

  /** Makes some points expire. With the machine's clock, none does. */
  async advance(): Promise<void> {
    const { inputs, model, subject } = this.#compared
    const before = new Set(model.points.map(({ id }) => id))
    subject.advance?.(inputs.below(4) * 1_000_000)
    model.expire(subject.nowUs)
    for (const id of before) if (!model.has(id)) await this.#compared.isGone(id)
  }
}

/** The fields of a point that a hit includes. */
function selected(
  { id, payload, vector, version }: ModelPoint,
  include: Include,
): Omit<ModelHit, 'distance'> {
  return {
    id,
    ...(include.payload ? { payload } : {}),
    ...(include.vector ? { vector } : {}),
    ...(include.version ? { version } : {}),
  }
}

/** By value as JSON: the number of points that have it. */
function countsOf(points: readonly ModelPoint[], path: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const point of points) {
    const texts = new Set(valuesAt(path, point).filter(isScalar).map(attributeToJson))
    for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  return counts
}

function isScalar(value: AttributeValue): value is Scalar {
  return !Array.isArray(value) && !(value instanceof Map)
}

/** The points that a request by filter changes, oldest first. Points that a patch leaves unchanged do not count. */
function chosenOf(
  matching: readonly ModelPoint[],
  limit: number | undefined,
  change: Patch | 'delete',
): { readonly chosen: readonly ModelPoint[]; readonly looked: number } {
  const chosen: ModelPoint[] = []
  let looked = 0
  for (const point of matching) {
    if (chosen.length === limit) break
    looked += 1
    if (change === 'delete' || !isSame(point.payload, patched(point.payload, change)!)) chosen.push(point)
  }
  return { chosen, looked }
}

function isSame(one: Payload, other: Payload): boolean {
  const parts = ({ content, contentType, expiresAtUs, attributes }: Payload): unknown[] => [
    content,
    contentType,
    expiresAtUs,
    attributes,
  ]
  return isDeepStrictEqual(parts(one), parts(other))
}
