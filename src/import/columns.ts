import { DateTime, formatDateTime } from '../base/attributes.ts'
import { type Cell, type Row, type Table, unread } from './file.ts'
import {
  isIdCell,
  isMissing,
  isVectorCell,
  kindOfText,
  type TextKind,
  typeOfTexts,
  type ValueType,
} from './values.ts'

/** A column of a file, or several that hold one component of a vector each. */
export interface Column {
  readonly name: string
  /** The columns with one component each: `v0`, `v1`, … */
  readonly members?: readonly string[] | undefined
  readonly memberTypes?: readonly ValueType[] | undefined
  /** Whether most of its values are vectors. */
  readonly isVector: boolean
  /** The length of its first vector. */
  readonly dimension?: number | undefined
  /** Whether all its values are UUIDs. */
  readonly isId: boolean
  readonly type: ValueType
  /** The first different values, as text. */
  readonly samples: readonly string[]
}

/** Fewer numbered columns, such as line1 and line2, do not form a vector. */
const membersMin = 4
/** What a column holds is decided from the first values, its type from all of them. */
const inspectedRows = 100
/** Further fields of JSON are stored as attributes, without being known before. */
const columnsMax = 10_000

/**
 * Reads a table to find its columns and their types. A column's type is decided from all its values, because its last
 * one may be the only text; for a stream, from those of its sample. Tables with typed columns are only read in part.
 *
 * @param columns the columns to inspect; without it, all
 */
export async function columnsOf(table: Table, columns?: readonly string[]): Promise<readonly Column[]> {
  const found = new Map<string, Inspected>()
  for (const name of table.names ?? []) found.set(name, new Inspected(table.isText))
  const isDecidedEarly = !table.isText && table.names !== undefined
  let rows = 0
  for await (const row of completeRows(table, columns)) {
    if (row.fault !== undefined) continue
    for (const name of columns ?? row.names) {
      const known = found.get(name)
      if (known !== undefined) known.add(row.cell(name))
      else if (found.size < columnsMax) found.set(name, new Inspected(table.isText, row.cell(name)))
    }
    rows += 1
    if (isDecidedEarly && rows === inspectedRows) break
  }
  return grouped([...found])
}

/** The rows of a sample without the last one, which the end of the sample may have cut off. */
async function* completeRows(table: Table, columns?: readonly string[]): AsyncGenerator<Row> {
  if (!table.isSampleCut) return yield* table.rows('sample', columns)
  let before: Row | undefined
  try {
    for await (const row of table.rows('sample', columns)) {
      if (before !== undefined) yield before
      before = row
    }
  } catch {
    // The sample may end inside quotes. A fault of the file is reported when it is read to store it.
  }
}

/** What is known about the values of a column. */
class Inspected {
  readonly #isText: boolean
  readonly #kinds = new Set<TextKind>()
  readonly samples: string[] = []
  isId = true
  dimension: number | undefined
  #values = 0
  #vectors = 0
  #numbers = 0

  constructor(isText: boolean, first?: Cell) {
    this.#isText = isText
    if (first !== undefined) this.add(first)
  }

  get isVector(): boolean {
    return this.#vectors > this.#inspected / 2
  }

  /** Most values decide. A bad value does not change what the column is: its row is faulty. */
  get isNumber(): boolean {
    return this.#numbers > this.#inspected / 2
  }

  get #inspected(): number {
    return Math.min(this.#values, inspectedRows)
  }

  get type(): ValueType {
    return this.#isText ? typeOfTexts(this.#kinds) : 'own'
  }

  add(cell: Cell): void {
    if (isMissing(cell) || cell === '' || cell === unread) return
    this.#values += 1
    if (this.isId && !isIdCell(cell)) this.isId = false
    if (this.#values <= inspectedRows) this.#inspect(cell)
    if (this.#isText && !this.#kinds.has('text')) this.#kinds.add(kindOfText(cell as string))
  }

  #inspect(cell: Cell): void {
    if (typeof cell === 'number' || (this.#isText && kindOfText(cell as string) === 'number'))
      this.#numbers += 1
    if (isVectorCell(cell, this.#isText)) {
      this.#vectors += 1
      this.dimension ??= this.#isText ? undefined : (cell as ArrayLike<unknown>).length
    }
    if (this.samples.length === shownSamples) return
    const text = shownText(cell)
    if (!this.samples.includes(text)) this.samples.push(text)
  }

  get hasValues(): boolean {
    return this.#values > 0
  }
}

const shownSamples = 3
const shownChars = 60

function shownText(cell: Cell): string {
  if (typeof cell === 'string') return cell.slice(0, shownChars)
  if (cell instanceof DateTime) return formatDateTime(cell)
  if (typeof cell !== 'object') return String(cell)
  const plain = ArrayBuffer.isView(cell) ? Array.from((cell as Float64Array).subarray(0, shownChars)) : cell
  return JSON.stringify(plain, (_, each: unknown) => (typeof each === 'bigint' ? Number(each) : each)).slice(
    0,
    shownChars,
  )
}

type Found = readonly (readonly [string, Inspected])[]

function grouped(found: Found): readonly Column[] {
  const groups = membersIn(found)
  const columns: Column[] = []
  for (let at = 0; at < found.length; ) {
    const [name, inspected] = found[at]!
    const members = groups.get(name)
    if (members !== undefined) {
      columns.push({
        name: `${name} … ${members.at(-1)}`,
        members,
        memberTypes: found.slice(at, at + members.length).map(([, member]) => member.type),
        dimension: members.length,
        isVector: true,
        isId: false,
        type: 'number',
        samples: [],
      })
      at += members.length
      continue
    }
    const { isVector, dimension, type, samples } = inspected
    columns.push({ name, isVector, dimension, isId: inspected.isId && inspected.hasValues, type, samples })
    at += 1
  }
  return columns
}

/** The runs of columns that hold numbers and whose names differ only in an ascending number, by the first name. */
function membersIn(found: Found): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, readonly string[]>()
  for (let at = 0; at < found.length; ) {
    const members = membersFrom(found, at)
    if (members.length >= membersMin) groups.set(members[0]!, members)
    at += Math.max(1, members.length)
  }
  return groups
}

function membersFrom(found: Found, at: number): readonly string[] {
  const [, prefix, first] = /^(.*?)(\d+)$/.exec(found[at]![0]) ?? []
  if (prefix === undefined) return []
  const members: string[] = []
  for (let index = at; index < found.length; index += 1) {
    const [name, inspected] = found[index]!
    if (name !== `${prefix}${Number(first) + members.length}` || !inspected.isNumber) break
    members.push(name)
  }
  return members
}
