import { dimensionMax } from '../base/point.ts'
import { type Format, type ImportFile, joined, OptionError, type Row, type Table } from './file.ts'

/**
 * Files that contain only vectors: arrays that numpy saved, and raw rows. Their tables have the column `vector`, and
 * `content`, which names the row.
 */

/** Opens a two-dimensional array, in C or Fortran order. */
export async function openNpy(file: ImportFile): Promise<Table> {
  const header = await headerOf(file)
  const { component, rows, dimension, start, isFortran } = header
  const expected = start + rows * dimension * component.bytes
  if (file.size !== expected) throw new Error(`it has ${file.size} bytes, its header says ${expected}`)
  const vectors = isFortran
    ? columnMajor(file, header)
    : rows === 0
      ? noRows
      : () => rowMajor(file, { component, dimension, start })
  return vectorTable('npy', vectors)
}

/** Opens raw rows. An .fvecs row begins with its dimension, an int32; others have the given one. */
export function openRaw(
  file: ImportFile,
  format: Extract<Format, 'fvecs' | 'f32' | 'i8'>,
  dimension: number | undefined,
): Table {
  const component = components[format === 'i8' ? '|i1' : '<f4']!
  if (format === 'fvecs') return vectorTable(format, () => rowMajor(file, { component, start: 0 }))
  if (dimension === undefined) throw new OptionError(`format ${format} needs --dimension`)
  const rowBytes = dimension * component.bytes
  if (file.size! % rowBytes !== 0) {
    throw new OptionError(
      `it has ${file.size} bytes, which is not a whole number of rows of ${rowBytes} bytes: is --dimension ${dimension} right?`,
    )
  }
  return vectorTable(format, () => rowMajor(file, { component, dimension, start: 0 }))
}

interface VectorRow {
  readonly endBytes: number
  readonly components: Float64Array
}

function vectorTable(format: Format, vectors: () => AsyncIterable<VectorRow>): Table {
  return {
    format,
    unit: 'row',
    isText: false,
    isSampleCut: false,
    names: vectorNames,
    rows: async function* (): AsyncGenerator<Row> {
      let row = 0
      for await (const { endBytes, components: vector } of vectors()) {
        const content = `row ${row}`
        row += 1
        yield {
          place: row,
          endBytes,
          names: vectorNames,
          cell: (name) => (name === 'vector' ? vector : name === 'content' ? content : undefined),
        }
      }
    },
  }
}

const vectorNames = ['vector', 'content'] as const

async function* noRows(): AsyncGenerator<VectorRow> {}

interface RowLayout {
  readonly component: Component
  /** Dimension of every row; absent if each row begins with it, as an int32. */
  readonly dimension?: number
  /** Bytes of the file before the first row. */
  readonly start: number
}

/** Reads rows one after the other. The file must end after the last one. */
async function* rowMajor(
  file: ImportFile,
  { component, dimension, start }: RowLayout,
): AsyncGenerator<VectorRow> {
  const head = dimension === undefined ? 4 : 0
  let rest: Uint8Array = new Uint8Array()
  let endBytes = start
  for await (const chunk of file.chunks(start)) {
    rest = joined([rest, chunk])
    const view = new DataView(rest.buffer, rest.byteOffset, rest.byteLength)
    let at = 0
    while (rest.length - at >= Math.max(head, 1)) {
      const length = dimension ?? view.getInt32(at, true)
      if (length < 1 || length > dimensionMax) {
        throw new Error(`it is not an .fvecs file: it has a row of ${length} components`)
      }
      const end = at + head + length * component.bytes
      if (end > rest.length) break
      const row = new Float64Array(length)
      for (let i = 0; i < length; i += 1) row[i] = component.read(view, at + head + i * component.bytes)
      endBytes += end - at
      yield { endBytes, components: row }
      at = end
    }
    rest = rest.slice(at)
  }
  if (rest.length > 0) throw new Error(`it ends inside a row: ${rest.length} bytes are left`)
}

/**
 * Reads rows of an array in Fortran order, which numpy saves for a transposed array or a table of pandas: it holds the
 * first components of all rows, then the second ones. Blocks of rows are collected from all columns.
 */
function columnMajor(
  file: ImportFile,
  { component, rows, dimension, start }: Header,
): () => AsyncIterable<VectorRow> {
  const rowBytes = dimension * component.bytes
  const blockRows = Math.max(1, Math.floor(blockBytes / rowBytes))
  return async function* () {
    for (let first = 0; first < rows; first += blockRows) {
      const count = Math.min(blockRows, rows - first)
      const block = Array.from({ length: count }, () => new Float64Array(dimension))
      for (let column = 0; column < dimension; column += 1) {
        const from = start + (column * rows + first) * component.bytes
        const bytes = await file.read(from, from + count * component.bytes)
        const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
        for (let row = 0; row < count; row += 1) {
          block[row]![column] = component.read(view, row * component.bytes)
        }
      }
      for (const [index, row] of block.entries()) {
        yield { endBytes: start + (first + index + 1) * rowBytes, components: row }
      }
    }
  }
}

/** Large, because each block is one read per component of the vectors. */
const blockBytes = 64 * 1024 * 1024

interface Header {
  readonly component: Component
  readonly rows: number
  readonly dimension: number
  readonly isFortran: boolean
  /** Offset of the first row. */
  readonly start: number
}

/**
 *   ├ \x93NUMPY ┼ major, minor ┼ length ┼ a Python dictionary, padded ┼ rows …
 *        6             2        2 or 4: since version 2, 4
 */
async function headerOf(file: ImportFile): Promise<Header> {
  const head = await file.read(0, Math.min(file.size!, headerBytesMax))
  const magic = '\x93NUMPY'
  if (head.length < 12 || !Array.from(magic).every((char, at) => head[at] === char.charCodeAt(0))) {
    throw new Error('it is not an .npy file: it does not begin like one')
  }
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  const isFirstVersion = head[6] === 1
  const headBytes = isFirstVersion ? 10 : 12
  const start = headBytes + (isFirstVersion ? view.getUint16(8, true) : view.getUint32(8, true))
  if (start > head.length) throw new Error('it is not a readable .npy file: its header is cut off')
  return { ...layoutIn(new TextDecoder().decode(head.subarray(headBytes, start))), start }
}

function layoutIn(text: string): Omit<Header, 'start'> {
  const type = /'descr':\s*'([^']*)'/.exec(text)?.[1]
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(text)?.[1]?.match(/\d+/g)?.map(Number) ?? []
  const component = type === undefined ? undefined : components[type]
  if (component === undefined) {
    throw new Error(
      `its components are of type ${type ?? 'several fields'}: they must be numbers or booleans of at most 64 bits (astype('<f4') in numpy)`,
    )
  }
  const [rows = 0, dimension = 0] = shape
  if (shape.length !== 2 || dimension < 1 || dimension > dimensionMax) {
    throw new Error(
      `it has the shape (${shape.join(', ')}): it must be two-dimensional, with 1 to ${dimensionMax} components per row`,
    )
  }
  return { component, rows, dimension, isFortran: /'fortran_order':\s*True/.test(text) }
}

/** The format of a component. */
interface Component {
  readonly bytes: number
  readonly read: (view: DataView, at: number) => number
}

/** Components by numpy's names, little-endian and big-endian. Vectors are float32, so large whole numbers are rounded. */
const components: Readonly<Record<string, Component>> = {
  '|b1': { bytes: 1, read: (view, at) => (view.getUint8(at) === 0 ? 0 : 1) },
  '|i1': { bytes: 1, read: (view, at) => view.getInt8(at) },
  '|u1': { bytes: 1, read: (view, at) => view.getUint8(at) },
  ...Object.fromEntries(
    [true, false].flatMap((isLittle): [string, Component][] => {
      const sign = isLittle ? '<' : '>'
      return [
        [`${sign}f8`, { bytes: 8, read: (view, at) => view.getFloat64(at, isLittle) }],
        [`${sign}f4`, { bytes: 4, read: (view, at) => view.getFloat32(at, isLittle) }],
        [`${sign}f2`, { bytes: 2, read: (view, at) => numberOfFloat16(view.getUint16(at, isLittle)) }],
        [`${sign}i8`, { bytes: 8, read: (view, at) => Number(view.getBigInt64(at, isLittle)) }],
        [`${sign}u8`, { bytes: 8, read: (view, at) => Number(view.getBigUint64(at, isLittle)) }],
        [`${sign}i4`, { bytes: 4, read: (view, at) => view.getInt32(at, isLittle) }],
        [`${sign}u4`, { bytes: 4, read: (view, at) => view.getUint32(at, isLittle) }],
        [`${sign}i2`, { bytes: 2, read: (view, at) => view.getInt16(at, isLittle) }],
        [`${sign}u2`, { bytes: 2, read: (view, at) => view.getUint16(at, isLittle) }],
      ]
    }),
  ),
}

/** Far more than numpy needs for two dimensions. */
const headerBytesMax = 64 * 1024

/**
 * Reads an IEEE 754 half-precision number: a sign, 5 bits of exponent, 10 of fraction. Node has `Float16Array` for
 * this; not every browser that the console supports does.
 */
export function numberOfFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1024 + fraction) * 2 ** (exponent - 25)
}
