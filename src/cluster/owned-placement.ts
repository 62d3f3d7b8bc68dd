import type { PartitionSet } from '../base/partitions.ts'
import { coverOf } from './cover.ts'
import type { Cover, Placement } from './placement.ts'

export interface OwnedPlacementOptions {
  readonly self: string
  /** By partition, the nodes that have it now. */
  readonly owners: () => readonly (readonly string[])[]
  /** Whether another node can be asked now. */
  readonly isLive: (node: string) => boolean
}

/** Where the points are when nodes have a part of them each. */
export class OwnedPlacement implements Placement {
  readonly #options: OwnedPlacementOptions
  /** So that covers of the same size take turns. */
  #covers = 0

  constructor(options: OwnedPlacementOptions) {
    this.#options = options
  }

  get isWhole(): boolean {
    const { self, owners } = this.#options
    return owners().every((each) => each.includes(self))
  }

  cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover {
    const { self, owners, isLive } = this.#options
    this.#covers += 1
    return coverOf({
      ...{ owners: owners(), wanted, turn: this.#covers },
      self: avoid.has(self) ? undefined : self,
      isLive: (node) => node !== self && !avoid.has(node) && isLive(node),
    })
  }

  owners(partition: number): readonly string[] {
    const { self, owners, isLive } = this.#options
    const there = owners()[partition]!.filter((node) => node === self || isLive(node))
    return there.toSorted((one, other) => Number(other === self) - Number(one === self))
  }
}
