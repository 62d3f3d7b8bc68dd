import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../base/attributes.ts'
import { GeoField } from './geo-field.ts'
import { ListArena } from './list-arena.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { SlotGroup } from './slot-group.ts'
import { TextField } from './text-field.ts'

/** What can exist at a path. The position of a kind is its number in shapes and files. */
const fieldKinds = ['present', 'text', 'number', 'moment', 'flag', 'place'] as const
type FieldKind = (typeof fieldKinds)[number]

/** One attribute path, and the values of all slots there. */
export class PathNode {
  readonly id: number
  readonly path: string
  readonly parent: PathNode | undefined
  readonly name: string
  readonly children: Map<string, PathNode> = new Map()
  readonly memory: MemoryCount
  /** Slots with a value, a list or a map there. */
  readonly present: SlotGroup
  /** Whether the point that is being set has a value there. */
  isStaged = false
  readonly #lists: ListArena
  #text: TextField | undefined
  #numbers: NumberField | undefined
  #moments: NumberField | undefined
  #flags: FlagField | undefined
  #places: GeoField | undefined

  constructor(id: number, name: string, parent: PathNode | undefined, memory: MemoryCount, lists: ListArena) {
    this.id = id
    this.name = name
    this.parent = parent
    this.path = parent === undefined || parent.parent === undefined ? name : `${parent.path}.${name}`
    this.memory = new MemoryCount(memory)
    this.memory.add(nodeBytes + this.path.length * 4)
    this.present = new SlotGroup(this.memory)
    this.#lists = lists
  }

  get text(): TextField | undefined {
    return this.#text
  }

  get numbers(): NumberField | undefined {
    return this.#numbers
  }

  get moments(): NumberField | undefined {
    return this.#moments
  }

  get flags(): FlagField | undefined {
    return this.#flags
  }

  get places(): GeoField | undefined {
    return this.#places
  }

  textField(): TextField {
    this.#text ??= new TextField(this.memory, this.#lists)
    return this.#text
  }

  numberField(): NumberField {
    this.#numbers ??= new NumberField(this.memory)
    return this.#numbers
  }

  momentField(): NumberField {
    this.#moments ??= new NumberField(this.memory)
    return this.#moments
  }

  flagField(): FlagField {
    this.#flags ??= new FlagField(this.memory)
    return this.#flags
  }

  placeField(): GeoField {
    this.#places ??= new GeoField(this.memory)
    return this.#places
  }

  /** Sets the staged values of a kind at a slot. */
  commit(kind: FieldKind, slot: number): void {
    if (kind === 'present') this.present.add(slot)
    else this.#field(kind).commit(slot)
  }

  /** Removes the values of a kind from a slot. */
  remove(kind: FieldKind, slot: number): void {
    if (kind === 'present') this.present.delete(slot)
    else this.#field(kind).remove(slot)
  }

  #field(kind: Exclude<FieldKind, 'present'>): TextField | NumberField | FlagField | GeoField {
    switch (kind) {
      case 'text':
        return this.textField()
      case 'number':
        return this.numberField()
      case 'moment':
        return this.momentField()
      case 'flag':
        return this.flagField()
      case 'place':
        return this.placeField()
    }
  }
}

/** All paths at which a slot has a value. A path without slots is removed, and its id is reused. */
export class PathTree {
  readonly root: PathNode
  readonly #memory: MemoryCount
  readonly #lists: ListArena
  readonly #byPath = new Map<string, PathNode>()
  readonly #byId: (PathNode | undefined)[] = []
  readonly #freeIds: number[] = []

  constructor(memory: MemoryCount) {
    this.#memory = memory
    this.#lists = new ListArena(memory)
    this.root = new PathNode(-1, '', undefined, memory, this.#lists)
  }

  get count(): number {
    return this.#byPath.size
  }

  get paths(): Iterable<string> {
    return this.#byPath.keys()
  }

  get nodes(): readonly (PathNode | undefined)[] {
    return this.#byId
  }

  find(path: string): PathNode | undefined {
    return this.#byPath.get(path)
  }

  byId(id: number): PathNode {
    return this.#byId[id]!
  }

  /** Returns the path of a name below a parent. Creates the path if it does not exist. */
  child(parent: PathNode, name: string): PathNode {
    const known = parent.children.get(name)
    if (known !== undefined) return known
    const id = this.#freeIds.pop() ?? this.#byId.length
    const node = new PathNode(id, name, parent, this.#memory, this.#lists)
    parent.children.set(name, node)
    this.#byPath.set(node.path, node)
    this.#byId[id] = node
    return node
  }

  /** Removes a path if no slot has a value there. Idempotent. */
  dropIfEmpty(id: number): void {
    const node = this.#byId[id]
    if (node === undefined || node.present.count > 0) return
    node.parent?.children.delete(node.name)
    this.#byPath.delete(node.path)
    this.#byId[id] = undefined
    this.#freeIds.push(id)
    node.memory.release()
  }
}

/** Size of the objects and maps as V8 allocates them. */
const nodeBytes = 700

/** The booleans at a path: the slots that have true, and the slots that have false. */
export class FlagField {
  readonly yes: SlotGroup
  readonly no: SlotGroup
  #stagedYes = false
  #stagedNo = false

  constructor(memory: MemoryCount) {
    this.yes = new SlotGroup(memory)
    this.no = new SlotGroup(memory)
  }

  /** Number of slots with a boolean. Slots with both count twice. */
  get count(): number {
    return this.yes.count + this.no.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: boolean): boolean {
    const isFirst = !this.#stagedYes && !this.#stagedNo
    if (value) this.#stagedYes = true
    else this.#stagedNo = true
    return isFirst
  }

  /** Sets the staged booleans at a slot. The slot must not have a boolean. */
  commit(slot: number): void {
    if (this.#stagedYes) this.yes.add(slot)
    if (this.#stagedNo) this.no.add(slot)
    this.#stagedYes = false
    this.#stagedNo = false
  }

  /** The slot must have a boolean. */
  remove(slot: number): void {
    this.yes.delete(slot)
    this.no.delete(slot)
  }
}

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
