/** What is wrong with such a text, in the words of the service. */
export const halfSurrogateWords = 'has half of a surrogate pair, it must be text that UTF-8 can hold'

/**
 * Finds text with half of a surrogate pair, which UTF-8 cannot hold.
 *
 * @returns its place below `value`, like `.content` or `[1].a`; undefined if there is none
 */
export function halfSurrogateIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : ''
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined
  // Each caller adds its part of the place, so that nothing is built for text without a fault.
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const place = halfSurrogateIn(value[index])
      if (place !== undefined) return `[${index}]${place}`
    }
    return undefined
  }
  for (const [name, each] of value instanceof Map ? value : Object.entries(value)) {
    if (!name.isWellFormed()) return `.${JSON.stringify(name)}`
    const place = halfSurrogateIn(each)
    if (place !== undefined) return `.${name}${place}`
  }
  return undefined
}
