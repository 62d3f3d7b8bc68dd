import type { PartitionSet } from '../base/partitions.ts'
import { coverOf, type OwnerGroup, ownerGroups } from './cover.ts'
import type { Cover, Placement } from './placement.ts'

/** By partition, the nodes that own it. */
export type Owners = readonly (readonly string[])[]

export interface OwnedPlacementOptions {
  readonly self: string
  /** The owners in the topology: a new object after each change. */
  readonly owners: () => Owners
  /** The partitions that this node holds itself, whatever the topology says: a new object after each change. */
  readonly held: () => PartitionSet
  /** Whether another node can be asked now. */
  readonly isLive: (node: string) => boolean
}

/** Where the points are when each node may hold only some of them. */
export class OwnedPlacement implements Placement {
  readonly #options: OwnedPlacementOptions
  /** Counts the covers, so that covers of the same size take turns. */
  #covers = 0
  #known: Known | undefined

  constructor(options: OwnedPlacementOptions) {
    this.#options = options
  }

  get isWhole(): boolean {
    return this.#now.isWhole
  }

  cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover {
    const { self, isLive } = this.#options
    this.#covers += 1
    return coverOf({
      ...{ groups: this.#now.groups, wanted, turn: this.#covers },
      self: avoid.has(self) ? undefined : self,
      isLive: (node) => node !== self && !avoid.has(node) && isLive(node),
    })
  }

  get nodes(): ReadonlyMap<string, boolean> {
    const { self, isLive } = this.#options
    const names = [...new Set(this.#now.owners.flat())].sort()
    return new Map(names.map((node) => [node, node === self || isLive(node)]))
  }

  owners(partition: number): readonly string[] {
    const { self, isLive } = this.#options
    const there = this.#now.owners[partition]!.filter((node) => node === self || isLive(node))
    return there.toSorted((one, other) => Number(other === self) - Number(one === self))
  }

  get #now(): Known {
    const { self } = this.#options
    const [said, held] = [this.#options.owners(), this.#options.held()]
    if (this.#known?.said === said && this.#known.held === held) return this.#known
    const owners = said.map((nodes, partition) => {
      const others = nodes.filter((node) => node !== self)
      return held.has(partition) ? [...others, self] : others
    })
    this.#known = { said, held, owners, groups: ownerGroups(owners), isWhole: held.isAll }
    return this.#known
  }
}

interface Known {
  readonly said: Owners
  readonly held: PartitionSet
  readonly owners: Owners
  readonly groups: readonly OwnerGroup[]
  readonly isWhole: boolean
}
