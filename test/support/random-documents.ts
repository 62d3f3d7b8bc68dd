import {
  type Attributes,
  type AttributeValue,
  DateTime,
  GeoPoint,
  type Scalar,
} from '../../src/base/attributes.ts'
import type { Bounds, Filter, Test } from '../../src/base/filter.ts'
import { idToBytes } from '../../src/base/ids.ts'
import type { Payload } from '../../src/base/point.ts'

/** Few names and values, so that filters match often. Each is easily mistaken for another one. */
const names = ['a', 'b', 'shop', '__proto__', 'constructor', 'ünï']
const texts = ['', 'x', 'xy', 'xyz', 'ж', '\u{1f600}', '\uffff', 'Image', '1', 'true', 'y'.repeat(300)]
const numbers = [0, 1, -1, 2.5, 1e300, -1e300, 5e-324, 3, 4, 1e6]
const moments = [0, 1, -62_135_596_800_000_000, 1_700_000_000_000_000]
const places = [new GeoPoint(0, 0), new GeoPoint(50, 179.9), new GeoPoint(50, -179.9), new GeoPoint(89.9, 10)]

/** Generates random payloads and filters. */
export class RandomDocuments {
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  payload(): Payload {
    const attributes = this.#map(3)
    return {
      contentType: this.below(2) === 0 ? 'Image' : 'Text',
      content: '',
      attributes: attributes.size === 0 ? undefined : attributes,
      expiresAtUs: this.below(3) === 0 ? this.#one(moments) : undefined,
    }
  }

  path(): string {
    if (this.below(12) === 0) return this.#one(['$content_type', '$version', '$expires_at'])
    return Array.from({ length: 1 + this.below(2) * this.below(3) }, () => this.#one(names)).join('.')
  }

  /** @param ids that filters by id choose from */
  filter(ids: readonly string[], depth = 3): Filter {
    const kind = depth === 0 ? 'condition' : this.#one(['all', 'any', 'not', 'condition', 'condition', 'ids'])
    switch (kind) {
      case 'not':
        return { kind, of: this.filter(ids, depth - 1) }
      case 'ids':
        return { kind, ids: sortedIds(ids.filter(() => this.below(4) === 0)) }
      case 'condition':
        return { kind, path: this.path(), test: this.#test() }
      default:
        return {
          kind: kind === 'all' ? 'all' : 'any',
          of: Array.from({ length: this.below(4) }, () => this.filter(ids, depth - 1)),
        }
    }
  }

  #test(): Test {
    const op = this.#one(['in', 'in', 'range', 'exists', 'contains', 'prefix', 'near', 'box'] as const)
    switch (op) {
      case 'in':
      case 'contains':
        return { op, values: Array.from({ length: this.below(4) }, () => this.#scalar()) }
      case 'range':
        return { op, bounds: this.#bounds() }
      case 'prefix':
        return { op, text: this.#one(['', 'x', 'xy', 'ж', 'I']) }
      case 'near':
        return { op, center: this.#place(), radiusM: this.#one([0, 1000, 30_000, 1e6, 3e7]) }
      case 'box':
        return { op, ...this.#box() }
      default:
        return { op }
    }
  }

  #bounds(): Bounds {
    const bound = this.#one([
      () => this.#one(texts),
      () => this.#one(numbers),
      () => new DateTime(this.#one(moments)),
    ])
    const low = this.#one(['gt', 'gte'] as const)
    const high = this.#one(['lt', 'lte'] as const)
    const shape = this.below(3)
    if (shape === 0) return { [low]: bound() }
    return shape === 1 ? { [high]: bound() } : { [low]: bound(), [high]: bound() }
  }

  #map(depth: number): Attributes {
    return new Map(Array.from({ length: this.below(4) }, () => [this.#one(names), this.#value(depth - 1)]))
  }

  #value(depth: number): AttributeValue {
    const kind = depth === 0 ? 'scalar' : this.#one(['scalar', 'scalar', 'scalar', 'list', 'map'])
    if (kind === 'map') return this.#map(depth)
    if (kind === 'list') return Array.from({ length: this.below(4) }, () => this.#value(depth - 1))
    return this.#scalar()
  }

  #scalar(): Scalar {
    return this.#one<() => Scalar>([
      () => this.#one(texts),
      () => this.#one(texts),
      () => this.#one(numbers),
      () => this.below(2) === 0,
      () => new DateTime(this.#one(moments)),
      () => this.#place(),
    ])()
  }

  /** A geographic box. South is never north of north, but west may be east of east. */
  #box(): { readonly southWest: GeoPoint; readonly northEast: GeoPoint } {
    const [one, other] = [this.#place(), this.#place()]
    return one.lat <= other.lat ? { southWest: one, northEast: other } : { southWest: other, northEast: one }
  }

  #place(): GeoPoint {
    if (this.below(3) > 0) return this.#one(places)
    return new GeoPoint(this.#random() * 180 - 90, this.#random() * 360 - 180)
  }

  #one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }
}

function sortedIds(ids: readonly string[]): Uint8Array {
  return new Uint8Array(Buffer.concat([...new Set(ids)].sort().map(idToBytes)))
}
