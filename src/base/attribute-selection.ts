import { isList, isMap } from './attribute-json.ts'
import type { Attributes, AttributeValue } from './attributes.ts'

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
