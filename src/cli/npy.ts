import { open } from 'node:fs/promises'
import { dimensionMax } from '../base/point.ts'
import type { Item, ReaderOptions } from './items.ts'
import { type Component, components, rowsOf } from './raw-rows.ts'
import { withTexts } from './texts.ts'

/** Reads the rows of an array that numpy has saved: two dimensions, in C order. */
export async function* readNpy(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const { component, rows, dimension, start, size } = await headerOf(file)
  const expected = start + rows * dimension * component.bytes
  if (size !== expected) throw new Error(`${file} has ${size} bytes, its header says ${expected}`)
  if (rows === 0) return
  yield* withTexts(file, rowsOf(file, { component, dimension, start }), options)
}

interface Header {
  readonly component: Component
  readonly rows: number
  readonly dimension: number
  /** Offset of the first row. */
  readonly start: number
  /** Size of the file. */
  readonly size: number
}

/**
 *   ├ \x93NUMPY ┼ major, minor ┼ length ┼ a Python dictionary, padded ┼ rows …
 *        6             2        2 or 4: since version 2, 4
 */
async function headerOf(file: string): Promise<Header> {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(headerBytesMax), 0, headerBytesMax, 0)
    const head = buffer.subarray(0, bytesRead)
    if (head.length < 12 || head.toString('latin1', 0, 6) !== '\x93NUMPY') {
      throw new Error(`${file} is not an .npy file: it does not begin like one`)
    }
    const lengthBytes = head[6] === 1 ? 2 : 4
    const start = 8 + lengthBytes + head.readUIntLE(8, lengthBytes)
    if (start > head.length) throw new Error(`${file} is not a readable .npy file: its header is cut off`)
    return { ...layoutIn(head.toString('utf8', 8 + lengthBytes, start), file), start, size }
  } finally {
    await handle.close()
  }
}

function layoutIn(text: string, file: string): Pick<Header, 'component' | 'rows' | 'dimension'> {
  const type = /'descr':\s*'([^']*)'/.exec(text)?.[1]
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(text)?.[1]?.match(/\d+/g)?.map(Number) ?? []
  const component = type === undefined ? undefined : types[type]
  if (component === undefined) {
    const what = type ?? 'several fields'
    throw new Error(
      `${file} has components of type ${what}: it must be one of ${Object.keys(types).join(', ')} (astype('<f4') in numpy)`,
    )
  }
  if (!/'fortran_order':\s*False/.test(text)) {
    throw new Error(`${file} is in Fortran order, it must be in C order (ascontiguousarray in numpy)`)
  }
  const [rows = 0, dimension = 0] = shape
  if (shape.length !== 2 || dimension < 1 || dimension > dimensionMax) {
    throw new Error(
      `${file} has the shape (${shape.join(', ')}): it must be two-dimensional, with 1 to ${dimensionMax} components per row`,
    )
  }
  return { component, rows, dimension }
}

/** Types by numpy's names. */
const types: Readonly<Record<string, Component>> = {
  '<f8': components.f64,
  '<f4': components.f32,
  '<f2': components.f16,
  '|i1': components.i8,
  '|u1': components.u8,
}

/** Far more than numpy needs for two dimensions. */
const headerBytesMax = 64 * 1024
