/** The rows of a matrix as views, without copying. */
export function rowsOf(matrix: Float32Array, dimension: number): Float32Array[] {
  return Array.from({ length: matrix.length / dimension }, (_, row) =>
    matrix.subarray(row * dimension, (row + 1) * dimension),
  )
}
