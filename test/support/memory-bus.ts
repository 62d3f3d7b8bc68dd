import { DatabaseError } from '../../src/base/errors.ts'
import { type MessageBus, NothingDone } from '../../src/cluster/requests.ts'

type Take = Parameters<MessageBus['subscribe']>[1]

/** Carries messages within this process, as NATS does between processes. */
export class MemoryBus implements MessageBus {
  /** Changes replies on their way; undefined: the reply is lost, and the asking node learns that at once. */
  change: (subject: string, reply: Uint8Array) => Uint8Array | undefined = (_, reply) => reply
  readonly #subscriptions = new Set<{ readonly prefix: string; readonly take: Take }>()

  async request(subject: string, message: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const take = this.#find(subject)
    if (take === undefined) throw new NothingDone('nobody listens')
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
    const late = new DatabaseError('deadline_exceeded', 'no reply in time')
    const timer = setTimeout(() => setImmediate(() => reject(late)), timeoutMs)
    const bytes = Uint8Array.from(message)
    const answered = (reply: Uint8Array): void => {
      const changed = this.change(subject, Uint8Array.from(reply))
      if (changed === undefined) reject(new DatabaseError('not_ready', 'the reply is lost'))
      else resolve(changed)
    }
    setImmediate(() => take(subject, bytes, (reply) => setImmediate(answered, reply)))
    return await promise.finally(() => clearTimeout(timer))
  }

  publish(subject: string, message: Uint8Array): void {
    const bytes = Uint8Array.from(message)
    setImmediate(() => this.#find(subject)?.(subject, bytes, () => {}))
  }

  subscribe(pattern: string, take: Take): () => void {
    const subscription = { prefix: pattern.slice(0, -1), take }
    this.#subscriptions.add(subscription)
    return () => this.#subscriptions.delete(subscription)
  }

  #find(subject: string): Take | undefined {
    return [...this.#subscriptions].find(({ prefix }) => subject.startsWith(prefix))?.take
  }
}
