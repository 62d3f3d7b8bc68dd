import type { LivePoints } from './live-points.ts'
import type { ReplicaHooks } from './replica-hooks.ts'

/**
 * Deletes expired points on a node of a cluster: by the log, and only those of partitions that the node has. Other nodes see
 * to the others, until the node has their partitions.
 */
export class ReplicaExpiry {
  readonly #points: LivePoints
  readonly #hooks: ReplicaHooks
  /** Slots of hidden points of partitions that the node did not have when they expired. */
  readonly #elsewhere: number[] = []
  readonly #onHeld = (): void => this.#points.expirations.putBack(this.#elsewhere.splice(0))

  constructor(points: LivePoints, hooks: ReplicaHooks) {
    this.#points = points
    this.#hooks = hooks
    hooks.held?.listeners.add(this.#onHeld)
  }

  async deleteExpired(): Promise<void> {
    const points = this.#points
    const { held, expire } = this.#hooks
    await expire(() => {
      const slots = points.takeExpired(expiredPerRecord)
      const isOurs = (slot: number): boolean => held?.now.has(points.table.ids.firstByteOf(slot)) ?? true
      this.#elsewhere.push(...slots.filter((slot) => !isOurs(slot)))
      return slots.filter(isOurs).map((slot) => points.idOf(slot))
    })
  }

  close(): void {
    this.#hooks.held?.listeners.delete(this.#onHeld)
  }
}

/** Some milliseconds of deletions, and a record of 64 KiB. */
const expiredPerRecord = 4096
