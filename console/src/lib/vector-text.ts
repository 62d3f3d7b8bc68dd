/** Parses pasted vectors: JSON, or numbers separated by commas, semicolons or spaces, with or without brackets. */

export type ParsedVector = { readonly vector: readonly number[] } | { readonly fault: string }

export function parseVector(text: string): ParsedVector {
  const trimmed = text.trim()
  if (trimmed === '') return { fault: 'Paste a vector.' }
  const inner = /^\{/.test(trimmed) ? vectorOfObject(trimmed) : trimmed.replace(/^[[(]|[\])]$/g, '')
  if (inner === undefined) return { fault: 'This JSON object has no field "vector" with a list of numbers.' }
  const parts = inner.split(/[\s,;]+/).filter((part) => part !== '')
  const vector: number[] = []
  for (const [index, part] of parts.entries()) {
    const value = Number(part)
    if (!Number.isFinite(value)) return { fault: `Number ${index + 1} is not a number: ${part.slice(0, 40)}` }
    vector.push(value)
  }
  return vector.length === 0 ? { fault: 'Paste a vector.' } : { vector }
}

function vectorOfObject(text: string): string | undefined {
  try {
    const { vector, embedding } = JSON.parse(text) as Record<string, unknown>
    const found = vector ?? embedding
    return Array.isArray(found) ? found.join(',') : undefined
  } catch {
    return undefined
  }
}

/** The shortest text that parses to the same numbers. */
export function vectorText(vector: readonly number[]): string {
  return vector.join(',')
}

/** A preview for display: the first numbers, and how many there are in total. */
export function vectorPreview(vector: readonly number[], shown = 4): string {
  const first = vector.slice(0, shown).map((value) => Number(value.toPrecision(4)))
  return vector.length <= shown
    ? `[${first.join(', ')}]`
    : `[${first.join(', ')}, … ${vector.length} numbers]`
}
