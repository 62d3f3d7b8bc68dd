import { randomUUID } from 'node:crypto'
import { type Attributes, DateTime } from '../../src/base/attributes.ts'
import type { Bounds, Filter, Test } from '../../src/base/filter.ts'
import {
  distanceMetrics,
  type Metric,
  type Patch,
  type Payload,
  type Precondition,
} from '../../src/base/point.ts'
import type { Model } from './model.ts'
import type { ModelNewPoint, ModelQuery } from './model-client.ts'
import type { Subject } from './model-subjects.ts'
import { seededRandom } from './random.ts'
import { RandomDocuments } from './random-documents.ts'

type SubjectTraits = Pick<Subject, 'advance' | 'nowUs'>

/** Random inputs for the check against the model: mostly valid, and mostly about existing points. */
export class ModelInputs {
  readonly random: () => number
  readonly #model: Model
  readonly #subject: SubjectTraits
  readonly #documents: Documents
  /** The dimension of the first insert; before it, the collection has none. */
  readonly #firstDimension: number

  /** @param subject whose clock is used */
  constructor(seed: number, model: Model, subject: SubjectTraits) {
    this.random = seededRandom(seed)
    this.#model = model
    this.#subject = subject
    this.#documents = new Documents(this.random)
    this.#firstDimension = 1 + this.below(24)
  }

  newPoint(): ModelNewPoint {
    return { vector: this.vector(), payload: this.payload() }
  }

  /** A point with a caller-chosen id. */
  ownPoint(): ModelNewPoint & { readonly id: string } {
    const onConflict = this.pick([undefined, 'error', 'replace', 'skip'] as const)
    return { ...this.newPoint(), id: this.writtenId(), ...(onConflict === undefined ? {} : { onConflict }) }
  }

  query(): ModelQuery {
    const limit = this.pick([1, 2, 10, 50, 1 + this.below(this.#model.size + 5), 16_384])
    const ef = this.random() < 0.3 ? { ef: this.below(200) } : {}
    return { vector: this.vector(), metric: this.pick<Metric>(distanceMetrics), limit, ...ef }
  }

  /** A query with options beyond the contract. */
  wideQuery(): ModelQuery {
    const id = this.someId()
    const query: ModelQuery = {
      ...this.query(),
      ...(this.random() < 0.2 && id !== undefined ? { vector: id } : {}),
      ...(this.random() < 0.8 ? { filter: this.filter() } : {}),
      ...(this.random() < 0.2 ? { exact: true } : {}),
    }
    // Implementations can round a cosine differently, so a result at the maximum distance would prove nothing.
    if (this.random() > 0.2 || query.metric === 'Cosine') return query
    const ranked = this.#model.ranked(query)
    return { ...query, maxDistance: ranked[this.below(ranked.length)]?.distance ?? 1 }
  }

  /**
   * Components are small multiples of 1/1024: their float64 sums are exact in any order. Therefore the distances of the
   * model and the kernels are identical, and ties are exact.
   */
  vector(): Float32Array {
    const length = this.#model.dimension ?? this.#firstDimension
    const fill = (value: () => number): Float32Array => Float32Array.from({ length }, value)
    const kind = this.random()
    if (kind < 0.3 && this.#model.size > 0) return this.pick(this.#model.points).vector
    if (kind < 0.35) return fill(() => this.pick([0, -0]))
    if (kind < 0.6) return fill(() => Math.round(this.random() * 2048 - 1024) / 1024)
    const scale = this.pick([0.25, 0.5, 1, 2, -4])
    return fill(() => this.below(3) * scale)
  }

  badVector(): number[] {
    const dimension = this.#model.dimension
    const vector = [...this.vector()]
    const faults = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e39]
    // Before the first insert, any length is valid.
    const isLengthFault = dimension !== undefined && this.random() < 0.5
    if (isLengthFault) return this.pick([[...vector, 1], vector.slice(1), []])
    vector[this.below(vector.length)] = this.pick(faults)
    return vector
  }

  payload(): Payload {
    const content = this.list(this.random() < 0.02 ? 3000 : 6, () => this.pick(texts)).join('')
    const attributes = this.random() < 0.6 ? this.attributes() : undefined
    return {
      contentType: this.pick(['Text', 'Image'] as const),
      content,
      ...(attributes === undefined ? {} : { attributes }),
      ...(this.random() < 0.2 ? { expiresAtUs: this.expiry() } : {}),
    }
  }

  attributes(): Attributes | undefined {
    const { attributes } = this.#documents.payload()
    return attributes?.size === 0 ? undefined : attributes
  }

  /** An expiry long ago or in the far future; a near one only if the test controls the clock. */
  expiry(): number {
    const { advance, nowUs } = this.#subject
    const soon = nowUs + this.below(8) * 1_000_000
    return this.pick([
      1,
      4_102_444_800_000_000,
      4_102_444_800_123_456,
      ...(advance === undefined ? [] : [soon, soon]),
    ])
  }

  patch(): Patch {
    return this.pick<() => Patch>([
      () => this.attributePatch(),
      () => this.attributePatch(),
      () => ({ ...this.attributePatch(), content: this.payload().content }),
      () => ({ contentType: this.pick(['Text', 'Image']) }),
      () => ({ expiresAtUs: this.expiry() }),
      () => ({ expiresAtUs: null }),
      () => ({ vector: this.vector() }),
      () => ({ vector: this.vector(), ...this.attributePatch() }),
    ])()
  }

  /** @param isFlat whether the patch can be applied to every point */
  attributePatch(isFlat = false): Patch {
    const [to, from] = [this.path(isFlat), this.path()]
    const value = [...(this.attributes() ?? [])][0]?.[1] ?? 'set'
    const set = { set: new Map([[to, value]]) }
    const overlap = to === from || to.startsWith(`${from}.`) || from.startsWith(`${to}.`)
    return this.pick([set, { unset: [from] }, overlap ? set : { ...set, unset: [from] }])
  }

  path(isFlat = false): string {
    const path = this.#documents.path()
    return isFlat ? path.split('.')[0]! : path
  }

  /** A random precondition, sometimes with an outdated version. */
  when(id: string): Precondition | undefined {
    const version = (this.#model.get(id)?.version ?? 7) - this.below(2)
    return this.pick<Precondition | undefined>([
      undefined,
      undefined,
      undefined,
      { kind: 'version', version: Math.max(1, version) },
      { kind: 'absent' },
      { kind: 'filter', filter: this.filter() },
    ])
  }

  filter(): Filter {
    const ids = this.list(8, () => this.someId()).filter((id) => id !== undefined)
    const filter = this.#documents.filter([...ids, randomUUID()])
    if (this.random() < 0.7) return filter
    return { kind: this.pick(['all', 'any']), of: [filter, this.#metaCondition()] }
  }

  #metaCondition(): Filter {
    const [path, test] = this.pick<[string, Test]>([
      ['$content_type', { op: 'in', values: [this.pick(['Text', 'Image'])] }],
      ['$version', { op: 'range', bounds: this.#bound(this.#model.version - this.below(100)) }],
      ['$expires_at', { op: 'exists' }],
      [
        '$expires_at',
        {
          op: 'range',
          bounds: this.#bound(new DateTime(this.pick([1, 4_102_444_800_000_000, 4_102_444_800_123_456]))),
        },
      ],
    ])
    return { kind: 'condition', path, test }
  }

  #bound(value: number | DateTime): Bounds {
    return { [this.pick(['gt', 'gte', 'lt', 'lte'] as const)]: value }
  }

  someId(): string | undefined {
    return this.#model.size === 0 ? undefined : this.pick(this.#model.points).id
  }

  missingId(): string {
    const { deleted } = this.#model
    return deleted.length > 0 && this.random() < 0.7 ? this.pick(deleted) : randomUUID()
  }

  /** An id to write to: of a point that exists, was deleted or never existed. */
  writtenId(): string {
    return (this.random() < 0.7 ? this.someId() : undefined) ?? this.missingId()
  }

  inSomeCase(id: string): string {
    return this.random() < 0.2 ? id.toUpperCase() : id
  }

  /** A list of 0 to `most` items. */
  list<Item>(most: number, make: () => Item): Item[] {
    return Array.from({ length: this.below(most + 1) }, make)
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }

  below(bound: number): number {
    return Math.floor(this.random() * bound)
  }
}

/** Uses only attribute paths: `$version` and similar paths allow only some kinds of comparison. */
class Documents extends RandomDocuments {
  override path(): string {
    const path = super.path()
    return path.startsWith('$') ? this.path() : path
  }
}

const texts = ['a', 'Z', ' ', '"', '\\', '\n', '\u0000', '\ufeff', 'é', '漢', '🦊', '\u2028', '</script>']
