import { attributesToJson } from './attribute-json.ts'
import { type Attributes, type AttributeValue, attributeLimits } from './attributes.ts'
import { invalid } from './errors.ts'

/**
 * Checks the limits that hold for all attributes of a point together. Each part has been checked before.
 *
 * @returns undefined if there are no attributes
 */
export function checkAttributes(attributes: Attributes, at: string): Attributes | undefined {
  if (attributes.size === 0) return undefined
  const paths = countPaths(attributes)
  if (paths > attributeLimits.paths) {
    throw invalid(`${at} has ${paths} paths, the maximum is ${attributeLimits.paths}`)
  }
  const bytes = Buffer.byteLength(attributesToJson(attributes))
  if (bytes > attributeLimits.bytes) {
    throw invalid(`${at} takes ${bytes} bytes as JSON, the maximum is ${attributeLimits.bytes}`)
  }
  return attributes
}

/** The names that follow each name. A set of whole paths would repeat a long name in every path. */
interface PathTree extends Map<string, PathTree> {}

function countPaths(attributes: Attributes): number {
  let count = 0
  const visit = (value: AttributeValue, tree: PathTree): void => {
    if (Array.isArray(value)) for (const each of value) visit(each, tree)
    if (!(value instanceof Map)) return
    for (const [name, inner] of value) {
      let branch = tree.get(name)
      if (branch === undefined) {
        branch = new Map()
        tree.set(name, branch)
        count += 1
      }
      visit(inner, branch)
    }
  }
  visit(attributes, new Map())
  return count
}
