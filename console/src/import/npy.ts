import { numberOfFloat16 } from '../../../src/base/float16.ts'
import type { Row, RowSource } from './rows.ts'

/** Rows are read in chunks of about this size. */
const pieceBytes = 1024 * 1024
/** Far more than NumPy needs for two dimensions. */
const maxHeaderBytes = 64 * 1024
const maxDimension = 65_535

interface Component {
  readonly bytes: number
  readonly read: (view: DataView, at: number) => number
}

/** Supported component types by their NumPy names, little-endian. */
const components: Readonly<Record<string, Component>> = {
  '<f8': { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
  '<f4': { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  '<f2': { bytes: 2, read: (view, at) => numberOfFloat16(view.getUint16(at, true)) },
  '|i1': { bytes: 1, read: (view, at) => view.getInt8(at) },
  '|u1': { bytes: 1, read: (view, at) => view.getUint8(at) },
}

interface Header {
  readonly component: Component
  readonly rows: number
  readonly dimension: number
  /** Where the first row begins. */
  readonly start: number
}

/** Opens a two-dimensional array in C order that NumPy saved. Each row becomes a vector and a row number. */
export async function openNpy(file: Blob): Promise<RowSource> {
  const header = await headerOf(file)
  return { format: 'NumPy', unit: 'row', isTyped: true, rows: () => rowsOf(file, header) }
}

async function* rowsOf(file: Blob, header: Header): AsyncGenerator<Row> {
  const { component, rows, dimension, start } = header
  const rowBytes = dimension * component.bytes
  const together = Math.max(1, Math.floor(pieceBytes / rowBytes))
  for (let first = 0; first < rows; first += together) {
    const last = Math.min(rows, first + together)
    const bytes = await file.slice(start + first * rowBytes, start + last * rowBytes).arrayBuffer()
    const view = new DataView(bytes)
    for (let row = first; row < last; row++) {
      const from = (row - first) * rowBytes
      const vector = Array.from({ length: dimension }, (_, at) =>
        component.read(view, from + at * component.bytes),
      )
      yield { place: row + 1, endBytes: start + (row + 1) * rowBytes, record: { vector, row } }
    }
  }
}

/**
 *   ├ \x93NUMPY ┼ major, minor ┼ length ┼ a dictionary of Python, padded ┼ rows …
 *        6             2        2 or 4: since version 2, 4
 */
async function headerOf(file: Blob): Promise<Header> {
  const bytes = new Uint8Array(await file.slice(0, maxHeaderBytes).arrayBuffer())
  const view = new DataView(bytes.buffer)
  const isFirstVersion = bytes[6] === 1
  const headBytes = isFirstVersion ? 10 : 12
  if (bytes.length < headBytes) throw new Error('The file is cut off.')
  const start = headBytes + (isFirstVersion ? view.getUint16(8, true) : view.getUint32(8, true))
  if (start > bytes.length) throw new Error('The header of the file is cut off.')
  const layout = layoutIn(new TextDecoder().decode(bytes.subarray(headBytes, start)))
  const expected = start + layout.rows * layout.dimension * layout.component.bytes
  if (file.size !== expected)
    throw new Error(`The file has ${file.size} bytes, but its header says ${expected}.`)
  return { ...layout, start }
}

function layoutIn(text: string): Omit<Header, 'start'> {
  const type = /'descr':\s*'([^']*)'/.exec(text)?.[1]
  const component = type === undefined ? undefined : components[type]
  if (component === undefined) {
    const known = Object.keys(components).join(', ')
    throw new Error(
      `Components of type ${type ?? 'several fields'} are not supported, only ${known}. Use astype('<f4').`,
    )
  }
  if (!/'fortran_order':\s*False/.test(text)) {
    throw new Error('The array is in Fortran order. Use ascontiguousarray.')
  }
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(text)?.[1]?.match(/\d+/g)?.map(Number) ?? []
  const [rows = 0, dimension = 0] = shape
  if (shape.length !== 2 || dimension < 1 || dimension > maxDimension) {
    throw new Error(
      `The array has the shape (${shape.join(', ')}). It must have two dimensions, and 1 to ${maxDimension} columns.`,
    )
  }
  return { component, rows, dimension }
}
