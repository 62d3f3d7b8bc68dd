import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../base/attributes.ts'
import { type FieldKind, fieldKinds, type PathNode, type PathTree } from './path-tree.ts'

/**
 * Stages all values of a point at their paths. Creates missing paths.
 *
 * @returns the code of each path and kind for which a value was staged, in ascending order
 */
export function stageAttributes(tree: PathTree, attributes: Attributes | undefined): number[] {
  const codes: number[] = []
  if (attributes !== undefined) stageMap(tree, tree.root, attributes, codes)
  return codes.sort((one, other) => one - other)
}

export function codeOf(pathId: number, kind: FieldKind): number {
  return pathId * kindsPerPath + fieldKinds.indexOf(kind)
}

/** Returns the path id of a code. */
export function pathIdOf(code: number): number {
  return Math.floor(code / kindsPerPath)
}

export function kindOf(code: number): FieldKind {
  return fieldKinds[code % kindsPerPath]!
}

const kindsPerPath = 8

function stageMap(tree: PathTree, parent: PathNode, attributes: Attributes, codes: number[]): void {
  for (const [name, value] of attributes) {
    const node = tree.child(parent, name)
    if (!node.isStaged) codes.push(codeOf(node.id, 'present'))
    node.isStaged = true
    stageValue(tree, node, value, codes)
  }
}

function stageValue(tree: PathTree, node: PathNode, value: AttributeValue, codes: number[]): void {
  if (typeof value === 'string') {
    if (node.textField().stage(value)) codes.push(codeOf(node.id, 'text'))
  } else if (typeof value === 'number') {
    if (node.numberField().stage(value)) codes.push(codeOf(node.id, 'number'))
  } else if (typeof value === 'boolean') {
    if (node.flagField().stage(value)) codes.push(codeOf(node.id, 'flag'))
  } else if (value instanceof DateTime) {
    if (node.momentField().stage(value.us)) codes.push(codeOf(node.id, 'moment'))
  } else if (value instanceof GeoPoint) {
    if (node.placeField().stage(value)) codes.push(codeOf(node.id, 'place'))
  } else if (isMap(value)) stageMap(tree, node, value, codes)
  else for (const element of value) stageValue(tree, node, element, codes)
}

function isMap(value: readonly AttributeValue[] | Attributes): value is Attributes {
  return value instanceof Map
}
