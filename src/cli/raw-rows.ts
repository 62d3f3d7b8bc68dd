import { createReadStream, statSync } from 'node:fs'
import { numberOfFloat16 } from '../base/float16.ts'
import { dimensionMax } from '../base/point.ts'
import type { Format, Item, ReaderOptions } from './items.ts'
import { type VectorRow, withTexts } from './texts.ts'
import { UsageError } from './usage.ts'

type RawFormat = Extract<Format, 'fvecs' | 'f32' | 'i8'>

/** Reads raw rows of `dimension` components. An .fvecs row begins with its dimension, an int32. */
export function readRows(file: string, format: RawFormat, options: ReaderOptions): AsyncGenerator<Item> {
  const component = format === 'i8' ? components.i8 : components.f32
  const layout =
    format === 'fvecs'
      ? { component }
      : { component, dimension: checkedDimension(file, format, component, options) }
  return withTexts(file, rowsOf(file, layout), options)
}

/** The layout of the rows of a file. */
export interface RowLayout {
  readonly component: Component
  /** Dimension of every row; absent if each row begins with it, as an int32. */
  readonly dimension?: number
  /** Bytes of the file before the first row. */
  readonly start?: number
}

/** Reads the rows of a file, which must end after the last row. */
export async function* rowsOf(
  file: string,
  { component, dimension, start = 0 }: RowLayout,
): AsyncGenerator<VectorRow> {
  const head = dimension === undefined ? 4 : 0
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(file, { start, highWaterMark: 1024 * 1024 })) {
    rest = Buffer.concat([rest, chunk as Buffer])
    let at = 0
    while (rest.length - at >= Math.max(head, 1)) {
      const length = dimension ?? rest.readInt32LE(at)
      if (length < 1 || length > dimensionMax)
        throw new Error(`${file} is not an .fvecs file: it has a row of ${length} components`)
      const end = at + head + length * component.bytes
      if (end > rest.length) break
      // A row can begin anywhere in a chunk, but a typed array must begin at a multiple of its component's size. So
      // copy it.
      const { buffer, byteOffset } = rest
      const bytes = buffer.slice(byteOffset + at + head, byteOffset + end) as ArrayBuffer
      yield { bytes: end - at, components: component.read(bytes) }
      at = end
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new Error(`${file} ends inside a row: ${rest.length} bytes are left`)
}

/** The format of a component, little-endian. */
export interface Component {
  readonly bytes: number
  readonly read: (bytes: ArrayBuffer) => ArrayLike<number>
}

export const components: Readonly<Record<'f64' | 'f32' | 'f16' | 'i8' | 'u8', Component>> = {
  f64: { bytes: 8, read: (bytes) => new Float64Array(bytes) },
  f32: { bytes: 4, read: (bytes) => new Float32Array(bytes) },
  f16: { bytes: 2, read: (bytes) => Float32Array.from(new Uint16Array(bytes), numberOfFloat16) },
  i8: { bytes: 1, read: (bytes) => new Int8Array(bytes) },
  u8: { bytes: 1, read: (bytes) => new Uint8Array(bytes) },
}

/** Checks the dimension against the size of the file, the only possible check: rows do not contain their length. */
function checkedDimension(
  file: string,
  format: RawFormat,
  component: Component,
  { dimension }: ReaderOptions,
): number {
  if (dimension === undefined) throw new UsageError(`format ${format} needs --dimension`)
  const { size } = statSync(file)
  const rowBytes = dimension * component.bytes
  if (size % rowBytes === 0) return dimension
  throw new UsageError(
    `${file} has ${size} bytes, which is not a whole number of rows of ${rowBytes} bytes: is --dimension ${dimension} right?`,
  )
}
