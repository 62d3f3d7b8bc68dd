import type { ReplicaHooks } from '../write/replica-hooks.ts'
import type { LivePoints } from './live-points.ts'

/**
 * Deletes expired points on a node of a cluster. Deletions go through the log, and only for partitions that the node
 * holds. Other nodes delete the other points, until the node holds their partitions.
 */
export class ReplicaExpiry {
  readonly #points: LivePoints
  readonly #hooks: ReplicaHooks
  /** Slots of hidden points whose partitions the node did not hold when they expired. */
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

/** A few milliseconds of deletions, and a log record of 64 KiB. */
const expiredPerRecord = 4096
