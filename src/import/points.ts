import {
  type Attributes,
  type AttributeValue,
  DateTime,
  halfSurrogateWords,
  isMap,
} from '../base/attributes.ts'
import { type NewPoint, type Payload, ttlSecondsMax } from '../base/point.ts'
import { type Cell, type Row, unread } from './file.ts'
import { attributeNameOf, isAttributeName, type Mapping } from './mapping.ts'
import {
  attributeOf,
  componentOf,
  contentOf,
  dateIn,
  isIdCell,
  isMissing,
  isMissingText,
  PlacedError,
  parseWithDigits,
  roundedNumberIn,
  type ValueType,
  vectorOf,
} from './values.ts'

interface PointOptions {
  /** Whether all values of the file are text. */
  readonly isText: boolean
  readonly scale?: number | undefined
  readonly normalize?: boolean | undefined
  /** Whether the service embeds the content of a record without a vector. */
  readonly embed?: boolean | undefined
  /** When the import began, in milliseconds since 1970: times to live count from then. */
  readonly startedMs: number
}

/** A point, or what is wrong with its row. The vector of a point that the service embeds is empty. */
export type Outcome =
  | { readonly point: NewPoint; readonly fault?: undefined }
  | { readonly fault: string; readonly point?: undefined }

type GoodRow = Row & { readonly fault?: undefined }

/** Converts rows to points, and counts what it leaves out. */
export class PointMaker {
  readonly #mapping: Mapping
  readonly #options: PointOptions
  readonly #types: ReadonlyMap<string, ValueType>
  readonly #roles: ReadonlySet<string>
  readonly #known: ReadonlySet<string>
  readonly #notStored: Map<string, number>

  /** @param notStored receives the columns that are not stored, with the number of rows in which they have a value */
  constructor(mapping: Mapping, options: PointOptions, notStored: Map<string, number>) {
    this.#mapping = mapping
    this.#options = options
    this.#notStored = notStored
    this.#known = new Set(mapping.attributes.map(({ column }) => column))
    const kept = mapping.attributes.filter((each) => each.kept)
    this.#types = new Map(kept.map(({ column, type }) => [column, type]))
    const { vector, content, id, contentTypeColumn, map, expiresAt, ttlSeconds } = mapping
    this.#roles = new Set([...vector, content, id, contentTypeColumn, map, expiresAt, ttlSeconds])
  }

  make(row: Row): Outcome {
    if (row.fault !== undefined) return { fault: row.fault }
    try {
      const others = this.#others(row)
      const point = this.#point(row, others)
      const { content, attributes = noAttributes } = point.payload
      if (!content.isWellFormed()) return { fault: `\`content\` ${halfSurrogateWords}` }
      const place = halfSurrogateIn(attributes)
      return place === undefined ? { point } : { fault: `\`attributes${place}\` ${halfSurrogateWords}` }
    } catch (error) {
      return { fault: (error as Error).message }
    }
  }

  #point(row: GoodRow, attributes: Attributes): NewPoint {
    const { contentTypeColumn, contentType, content, id } = this.#mapping
    const vector = this.#vector(row)
    const expiresAtUs = this.#expiry(row)
    const type = contentTypeColumn === '' ? undefined : row.cell(contentTypeColumn)
    if (!isMissing(type) && type !== '' && type !== 'Text' && type !== 'Image') {
      throw new Error(`\`${contentTypeColumn}\` is not Text or Image`)
    }
    const payload: Payload = {
      contentType: type === 'Text' || type === 'Image' ? type : contentType,
      content: content === '' ? '' : inColumn(content, () => contentOf(row.cell(content))),
      ...(attributes.size === 0 ? {} : { attributes }),
      ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
    }
    if (id === '') return { vector, payload }
    const own = row.cell(id)
    if (!isIdCell(own)) throw new Error(`\`${id}\` is not a UUID`)
    return { vector, payload, id: (own as string).toLowerCase() }
  }

  #vector(row: GoodRow): Float32Array {
    const { vector: columns, isSplit } = this.#mapping
    const { isText, embed = false } = this.#options
    if (isSplit) {
      return this.#scaled(columns.map((name) => inColumn(name, () => componentOf(row.cell(name), isText))))
    }
    const [name] = columns
    const cell = name === undefined ? undefined : row.cell(name)
    if (name === undefined || (embed && (isMissing(cell) || cell === ''))) return noVector
    const components = inColumn(name, () => vectorOf(cell, isText))
    // Without components, the service would embed the content.
    if (components.length === 0 && !embed) throw new Error(`\`${name}\` is empty`)
    return this.#scaled(components)
  }

  #scaled(components: ArrayLike<number>): Float32Array {
    const { scale = 1, normalize = false } = this.#options
    const factor = normalize ? 1 / (lengthOf(components) || 1) : scale
    const vector = new Float32Array(components.length)
    for (let index = 0; index < components.length; index += 1) {
      vector[index] = components[index]! * factor
      if (!Number.isFinite(vector[index])) {
        throw new Error(`\`vector\` has ${components[index]! * factor} at ${index}: not a finite float32`)
      }
    }
    return vector
  }

  /** The attributes: the map, and the columns without another role. */
  #others(row: GoodRow): Attributes {
    const { map, keepsLater } = this.#mapping
    const attributes = new Map<string, AttributeValue>()
    const read = row.exact ?? row.cell
    const given = this.#given(map, read)
    if (given !== undefined) for (const [name, value] of mapOf(given, map)) attributes.set(name, value)
    for (const name of row.names) {
      if (this.#roles.has(name)) continue
      const type = this.#types.get(name) ?? (keepsLater && !this.#known.has(name) ? 'own' : undefined)
      if (type === undefined) {
        const cell = row.cell(name)
        if (cell === unread || (!isMissing(cell) && cell !== '')) this.#leaveOut(name)
        continue
      }
      const value = inColumn(name, () => attributeOf(read(name), type))
      if (value === undefined) continue
      if (!isAttributeName(name)) throw new Error(`\`${name}\` cannot be the name of an attribute`)
      const attribute = attributeNameOf(name)
      if (attributes.has(attribute))
        throw new Error(`\`${attribute}\` is given twice, also in \`attributes\``)
      attributes.set(attribute, value)
    }
    return attributes
  }

  #leaveOut(name: string): void {
    this.#notStored.set(name, (this.#notStored.get(name) ?? 0) + 1)
  }

  /** The value of a column that is not text; undefined without one. @param column '' if the file has no such column */
  #given(column: string, read: (name: string) => Cell): Cell {
    const cell = column === '' ? undefined : read(column)
    if (isMissing(cell) || cell === '') return undefined
    return this.#options.isText && typeof cell === 'string' && isMissingText(cell) ? undefined : cell
  }

  #expiry(row: GoodRow): number | undefined {
    const { expiresAt, ttlSeconds } = this.#mapping
    const at = this.#given(expiresAt, row.cell)
    const life = this.#given(ttlSeconds, row.cell)
    if (at === undefined) {
      return life === undefined
        ? undefined
        : this.#options.startedMs * 1000 + Math.round(secondsIn(life, ttlSeconds) * 1e6)
    }
    if (life !== undefined)
      throw new Error(`\`${expiresAt}\` and \`${ttlSeconds}\` are both given: a point has one of them`)
    const date = inColumn(expiresAt, () => attributeOf(at, 'own'))
    const parsed = typeof date === 'string' ? dateIn(date) : date
    if (parsed instanceof DateTime) return parsed.us
    throw new Error(`\`${expiresAt}\` is not a time like 2026-01-31T00:00:00Z`)
  }
}

function secondsIn(cell: unknown, column: string): number {
  const seconds = inColumn(column, () => attributeOf(cell, typeof cell === 'string' ? 'number' : 'own'))
  if (typeof seconds === 'number' && seconds > 0 && seconds <= ttlSecondsMax) return seconds
  throw new Error(`\`${column}\` must be a number greater than 0 and at most ${ttlSecondsMax} (100 years)`)
}

/** A map of attributes; in text, JSON. */
function mapOf(cell: unknown, column: string): Attributes {
  if (typeof cell === 'string' && cell.trim() === '') return new Map()
  const value = typeof cell === 'string' ? parsedMap(cell, column) : cell
  const map = inColumn(column, () => attributeOf(value, 'own'))
  if (map instanceof Map) return map as Attributes
  throw new Error(
    `\`${column}\` is not an object with values, like {"price": 5, "at": {"$date": "2026-01-31T00:00:00Z"}}`,
  )
}

function parsedMap(text: string, column: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new Error(`\`${column}\` is not JSON: ${(error as Error).message}`)
  }
  const rounded = roundedNumberIn(value, () => parseWithDigits(text), column)
  if (rounded !== undefined) throw new Error(rounded)
  return value
}

function inColumn<T>(column: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof PlacedError) throw error
    throw new Error(`\`${column}\` ${(error as Error).message}`)
  }
}

function lengthOf(components: ArrayLike<number>): number {
  let sum = 0
  for (let index = 0; index < components.length; index += 1) sum += components[index]! ** 2
  return Math.sqrt(sum)
}

const noVector = new Float32Array()
const noAttributes: Attributes = new Map()

/**
 * Finds text with half of a surrogate pair, which UTF-8 cannot hold. In a file, only escapes of JSON can.
 *
 * @returns its place below `value`, like `.a[1]`; undefined if there is none
 */
function halfSurrogateIn(value: AttributeValue): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : ''
  // Each caller adds its part of the place, so that nothing is built for text without a fault.
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const place = halfSurrogateIn(value[index]!)
      if (place !== undefined) return `[${index}]${place}`
    }
  } else if (isMap(value)) {
    for (const [name, each] of value) {
      if (!name.isWellFormed()) return `.${JSON.stringify(name)}`
      const place = halfSurrogateIn(each)
      if (place !== undefined) return `.${name}${place}`
    }
  }
  return undefined
}

/** What was not stored, in words for the end of an import: `not stored: column lang (5,000 rows)`. */
export function notStoredWords(columns: ReadonlyMap<string, number>): string | undefined {
  if (columns.size === 0) return undefined
  const each = [...columns].map(
    ([name, rows]) => `${name} (${rows.toLocaleString('en')} ${rows === 1 ? 'row' : 'rows'})`,
  )
  const shown = each.length > 20 ? [...each.slice(0, 20), `${each.length - 20} more`] : each
  return `not stored: ${columns.size === 1 ? 'column' : 'columns'} ${shown.join(', ')}`
}

/**
 * Some of the points that an import has stored. A collection that was deleted and created again has the same name as
 * before: only its points tell whether it is the collection that an import began to fill.
 */
export interface SampledPoint {
  readonly id: string
  readonly expiresAtUs?: number | undefined
}

/** One call counts them. */
const sampleMax = 64

/**
 * Adds the last point of a batch. Of too many, every other one stays, and always the last: a spread over the file.
 *
 * @param point undefined if nothing of the batch was stored
 */
export function sampleWith(
  sample: readonly SampledPoint[],
  point: SampledPoint | undefined,
): readonly SampledPoint[] {
  if (point === undefined) return sample
  const added = [...sample, point]
  return added.length <= sampleMax ? added : added.filter((_, index) => (added.length - index) % 2 === 1)
}

/** The ids of the points that have not expired, also if the clock of the service is a little ahead. */
export function lastingIds(sample: readonly SampledPoint[]): readonly string[] {
  const soonUs = (Date.now() + 60_000) * 1000
  return sample
    .filter(({ expiresAtUs = Number.POSITIVE_INFINITY }) => expiresAtUs > soonUs)
    .map(({ id }) => id)
}
