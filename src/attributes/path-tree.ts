import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Payload } from '../base/point.ts'
import { GeoField } from './geo-field.ts'
import { ListArena } from './list-arena.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { SlotGroup } from './slot-group.ts'
import { TextField } from './text-field.ts'

/** What can exist at a path. The position of a kind is its number in shapes and files. */
const kinds = ['present', 'text', 'number', 'date', 'boolean', 'geo'] as const
type Kind = (typeof kinds)[number]

/** The values at a path, by their type. */
export interface Fields {
  readonly text: TextField
  readonly number: NumberField
  readonly date: NumberField
  readonly boolean: BooleanField
  readonly geo: GeoField
}

const newField: {
  readonly [Type in keyof Fields]: (memory: MemoryCount, lists: ListArena) => Fields[Type]
} = {
  text: (memory, lists) => new TextField(memory, lists),
  number: (memory) => new NumberField(memory),
  date: (memory) => new NumberField(memory),
  boolean: (memory) => new BooleanField(memory),
  geo: (memory) => new GeoField(memory),
}

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
  /** The fields of the types that any point has had there. */
  readonly fields: { -readonly [Type in keyof Fields]: Fields[Type] | undefined } = {
    text: undefined,
    number: undefined,
    date: undefined,
    boolean: undefined,
    geo: undefined,
  }
  /** Whether the point that is being set has a value there. */
  isStaged = false
  readonly #lists: ListArena

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

  /** Returns the field of a type. Creates it if it does not exist. */
  field<Type extends keyof Fields>(type: Type): Fields[Type] {
    const known: Fields[Type] | undefined = this.fields[type]
    return known ?? this.#addField(type)
  }

  #addField<Type extends keyof Fields>(type: Type): Fields[Type] {
    const field = newField[type](this.memory, this.#lists)
    this.fields[type] = field
    return field
  }

  /** Sets the staged values of a kind at a slot. */
  commit(kind: Kind, slot: number): void {
    if (kind === 'present') this.present.add(slot)
    else this.field(kind).commit(slot)
  }

  /** Removes the values of a kind from a slot. */
  remove(kind: Kind, slot: number): void {
    if (kind === 'present') this.present.delete(slot)
    else this.field(kind).remove(slot)
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
export class BooleanField {
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

export function codeOf(pathId: number, kind: Kind): number {
  return pathId * kindsPerPath + kinds.indexOf(kind)
}

/** Returns the path id of a code. */
export function pathIdOf(code: number): number {
  return Math.floor(code / kindsPerPath)
}

export function kindOf(code: number): Kind {
  return kinds[code % kindsPerPath]!
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
    if (node.field('text').stage(value)) codes.push(codeOf(node.id, 'text'))
  } else if (typeof value === 'number') {
    if (node.field('number').stage(value)) codes.push(codeOf(node.id, 'number'))
  } else if (typeof value === 'boolean') {
    if (node.field('boolean').stage(value)) codes.push(codeOf(node.id, 'boolean'))
  } else if (value instanceof DateTime) {
    if (node.field('date').stage(value.us)) codes.push(codeOf(node.id, 'date'))
  } else if (value instanceof GeoPoint) {
    if (node.field('geo').stage(value)) codes.push(codeOf(node.id, 'geo'))
  } else if (isMap(value)) stageMap(tree, node, value, codes)
  else for (const element of value) stageValue(tree, node, element, codes)
}

function isMap(value: readonly AttributeValue[] | Attributes): value is Attributes {
  return value instanceof Map
}

interface CapacityCheckOptions {
  readonly tree: PathTree
  readonly pathsMax: number
  /** Bytes that the index uses now. */
  readonly memoryBytes: number
  /** @throws DatabaseError `memory_full` if the index may not use this many bytes */
  readonly checkMemory: (bytes: number) => void
}

/** Checks that points fit into the index together, before any of them is stored. The points are added one by one. */
export class CapacityCheck {
  readonly #options: CapacityCheckOptions
  readonly #newPaths = new Set<string>()
  #bytes = 0
  /** The value of `#bytes` at which memory is checked again. */
  #nextCheck = 0

  constructor(options: CapacityCheckOptions) {
    this.#options = options
  }

  /**
   * Throws unless this point fits in addition to the points added before.
   *
   * @throws DatabaseError `memory_full`; `invalid_argument` when the collection would have too many different paths
   */
  add({ attributes }: Payload): void {
    this.#bytes += pointBytes
    if (attributes !== undefined) this.#addMap(this.#options.tree.root, '', attributes)
    if (this.#bytes < this.#nextCheck) return
    this.#nextCheck = this.#bytes + bytesPerCheck
    this.#options.checkMemory(this.#options.memoryBytes + this.#bytes)
  }

  /** @param node undefined where the path is new */
  #addMap(node: PathNode | undefined, prefix: string, attributes: Attributes): void {
    for (const [name, value] of attributes) {
      const child = node?.children.get(name)
      const path = `${prefix}${name}`
      if (child === undefined) this.#addPath(path)
      this.#addValue(child, path, value)
    }
  }

  #addPath(path: string): void {
    if (this.#newPaths.has(path)) return
    const { tree, pathsMax } = this.#options
    if (tree.count + this.#newPaths.size >= pathsMax) {
      throw new DatabaseError(
        'invalid_argument',
        `attribute path ${quoted(path)} is new: the collection would exceed its limit of ${pathsMax} different paths`,
      )
    }
    this.#newPaths.add(path)
    this.#bytes += pathBytes
  }

  #addValue(node: PathNode | undefined, path: string, value: AttributeValue): void {
    this.#bytes += valueBytes
    if (typeof value === 'string') this.#bytes += value.length
    else if (isNested(value)) {
      if (value instanceof Map) this.#addMap(node, `${path}.`, value)
      else for (const element of value as readonly AttributeValue[]) this.#addValue(node, path, element)
    }
  }
}

function isNested(value: AttributeValue): value is readonly AttributeValue[] | Attributes {
  return typeof value === 'object' && !(value instanceof DateTime) && !(value instanceof GeoPoint)
}

function quoted(path: string): string {
  return JSON.stringify(path.length > shownMax ? `${path.slice(0, shownMax)}...` : path)
}

const shownMax = 100
/** The version, the shape and the entry in the set of live slots. */
const pointBytes = 16
/** Usual size of a value, including its slot in a group and its entry in a table or column. */
const valueBytes = 24
const pathBytes = 2500
/** Checks are this far apart because each check visits every collection. */
const bytesPerCheck = 65_536
