import {
  type Attributes,
  type AttributeValue,
  attributeLimits,
  attributesToJson,
  checkPath,
  DateTime,
  GeoPoint,
  isList,
  isMap,
  shownText,
} from './attributes.ts'
import { invalid } from './errors.ts'
import type { Patch, Payload } from './point.ts'

/**
 * Checks the paths of a patch, once for any number of points. Overlapping paths are refused: the names of a map have no
 * order, so it would be unclear which change is made first.
 *
 * @param at the place of the patch in the request, followed by a dot: '' or like `patch.`
 */
export function checkPatchPaths({ set, unset = [] }: Pick<Patch, 'set' | 'unset'>, at: string): void {
  if (unset.length > attributeLimits.paths) {
    throw invalid(`${at}unset has ${unset.length} paths, the maximum is ${attributeLimits.paths}`)
  }
  for (const [index, path] of unset.entries()) checkPath(path, `${at}unset[${index}]`)
  const paths = [...(set?.keys() ?? [])]
  if (paths.length > attributeLimits.paths) {
    throw invalid(`${at}set has ${paths.length} paths, the maximum is ${attributeLimits.paths}`)
  }
  for (const [index, path] of paths.entries()) {
    const other = [...paths.slice(index + 1), ...unset].find((each) => overlap(path, each))
    if (other === undefined) continue
    throw invalid(
      `${at}set has ${shownText(path)}, which overlaps with ${shownText(other)} in the same patch`,
    )
  }
}

/** Whether two paths are the same, or one is inside the other. */
export function overlap(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}.`) || other.startsWith(`${path}.`)
}

/**
 * Returns a point's payload after a patch whose paths were checked. The given payload does not change.
 *
 * @throws DatabaseError `invalid_argument` when a path leads through a value that is not a map, or the attributes would
 *   exceed a limit
 */
export function applyPatch(payload: Payload, patch: Patch): Payload {
  const { contentType = payload.contentType, content = payload.content } = patch
  const expiresAtUs = patch.expiresAtUs === undefined ? payload.expiresAtUs : (patch.expiresAtUs ?? undefined)
  const attributes = patchedAttributes(payload.attributes, patch)
  return {
    contentType,
    content,
    ...(attributes === undefined ? {} : { attributes }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  }
}

function patchedAttributes(
  before: Attributes | undefined,
  { set, unset = [] }: Patch,
): Attributes | undefined {
  if (set === undefined && unset.length === 0) return before
  let after = before ?? new Map()
  for (const path of unset) after = without(after, path.split('.'), 0)
  for (const [path, value] of set ?? []) after = withValue(after, path.split('.'), 0, value)
  return checkAttributes(after, 'attributes')
}

function withValue(
  map: Attributes,
  names: readonly string[],
  index: number,
  value: AttributeValue,
): Attributes {
  const name = names[index]!
  if (index === names.length - 1) return new Map(map).set(name, value)
  const inner = map.get(name) ?? new Map()
  if (!isMap(inner)) {
    const there = shownText(names.slice(0, index + 1).join('.'))
    throw invalid(
      `set has the path ${shownText(names.join('.'))}, but ${there} is ${kindOf(inner)} and not a map`,
    )
  }
  return new Map(map).set(name, withValue(inner, names, index + 1, value))
}

/** Returns the same map when there is nothing to remove. A path leads through lists of maps, as in filters. */
function without(map: Attributes, names: readonly string[], index: number): Attributes {
  const name = names[index]!
  const inner = map.get(name)
  if (inner === undefined) return map
  const after = new Map(map)
  if (index === names.length - 1) after.delete(name)
  else after.set(name, withoutInside(inner, names, index + 1))
  return after
}

function withoutInside(value: AttributeValue, names: readonly string[], index: number): AttributeValue {
  if (isMap(value)) return without(value, names, index)
  return isList(value) ? value.map((each) => withoutInside(each, names, index)) : value
}

function kindOf(value: AttributeValue): string {
  if (value instanceof DateTime) return 'a date'
  if (value instanceof GeoPoint) return 'a geo point'
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`
}

/** The selected names of a map: for each, all of its value or parts of it. */
interface Selection extends Map<string, Selection | 'all'> {}

/**
 * Returns the attributes at these paths, inside the maps and lists that contain them. Each map of a list keeps its
 * selected attributes; elements without any are left out.
 *
 * @returns undefined when the paths have no value
 */
export function selectAttributes(
  attributes: Attributes | undefined,
  paths: readonly string[] | 'all',
): Attributes | undefined {
  if (attributes === undefined || paths === 'all') return attributes
  return selectFrom(attributes, selectionOf(paths))
}

function selectionOf(paths: readonly string[]): Selection {
  const all: Selection = new Map()
  for (const path of paths) {
    const names = path.split('.')
    const last = names.pop()!
    let selection: Selection | 'all' = all
    for (const name of names) {
      if (selection === 'all') break
      const inner: Selection | 'all' = selection.get(name) ?? new Map()
      selection.set(name, inner)
      selection = inner
    }
    if (selection !== 'all') selection.set(last, 'all')
  }
  return all
}

function selectFrom(map: Attributes, selection: Selection): Attributes | undefined {
  const selected = new Map<string, AttributeValue>()
  for (const [name, part] of selection) {
    const value = map.get(name)
    const found = value === undefined || part === 'all' ? value : selectInside(value, part)
    if (found !== undefined) selected.set(name, found)
  }
  return selected.size === 0 ? undefined : selected
}

function selectInside(value: AttributeValue, selection: Selection): AttributeValue | undefined {
  if (isMap(value)) return selectFrom(value, selection)
  if (!isList(value)) return undefined
  const found = value.map((each) => selectInside(each, selection)).filter((each) => each !== undefined)
  return found.length === 0 ? undefined : found
}

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
