import { UsageError } from './usage.ts'

/** Parses a JSON array, an object with a `vector`, or plain numbers like `1,2,3` or `1 2 3`. */
export function vectorIn(text: string, source: string): number[] {
  const isJson = /^\s*[[{]/.test(text)
  let parsed: unknown
  try {
    parsed = JSON.parse(isJson ? text : `[${text.trim().split(/\s*,\s*|\s+/)}]`)
  } catch (error) {
    throw new UsageError(`${source} is not a vector like [1, 2, 3] or 1,2,3: ${(error as Error).message}`)
  }
  const numbers = Array.isArray(parsed) ? parsed : (parsed as { vector?: unknown } | null)?.vector
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === 'number')) {
    throw new UsageError(`${source} is not a vector, an array of numbers like [1, 2, 3] or 1,2,3`)
  }
  return numbers
}
