import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Payload } from '../base/point.ts'
import type { PathNode, PathTree } from './path-tree.ts'

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
