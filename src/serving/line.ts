import type { ByteBudget, ByteHold } from '../base/budgets.ts'
import { cancellation, type DatabaseError } from '../base/errors.ts'
import { fromMessage, type MessageCall, toMessage } from '../base/plain-values.ts'

/** The calls that one end of a line answers, by name. */
export type Answers = Readonly<Record<string, (...inputs: never[]) => unknown>>

/** A call, its cancellation, or its outcome. The end that asks numbers its calls. */
export type LineMessage =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly inputs: unknown }
  | { readonly kind: 'tell'; readonly name: string; readonly inputs: unknown }
  | { readonly kind: 'cancel'; readonly id: number; readonly error: unknown }
  /** `bytes` of the answer's claim on the budget of answers are handed over with it. */
  | { readonly kind: 'answer'; readonly id: number; readonly output: unknown; readonly bytes: number }
  | { readonly kind: 'failure'; readonly id: number; readonly error: unknown }

interface LineOptions {
  readonly post: (messages: readonly LineMessage[]) => void
  readonly answers: Answers
  /** The budget of the answers that are made here. */
  readonly budget: ByteBudget
  /** The number of the thread at the other end, to which claims are handed over. */
  readonly thread: number
}

interface Asked extends MessageCall {
  readonly resolve: (output: unknown) => void
  readonly reject: (error: unknown) => void
  readonly stopListening: () => void
}

/**
 * One end of a line between two threads, over which each calls functions of the other by name. Inputs and outputs are
 * plain data, except that a call can be cancelled by its signal, and that what is read for its answer counts towards the
 * caller's claim. What is said in one turn of the event loop travels as one message.
 */
export class Line {
  readonly #options: LineOptions
  readonly #asked = new Map<number, Asked>()
  /** The calls that are being answered here. */
  readonly #running = new Map<number, AbortController>()
  #outbox: LineMessage[] = []
  #lastId = 0
  #end: DatabaseError | undefined

  constructor(options: LineOptions) {
    this.#options = options
  }

  /** Calls a function at the other end. Fails with its error, or with that of `end`. */
  async ask(name: string, ...given: unknown[]): Promise<unknown> {
    if (this.#end !== undefined) throw this.#end
    const { message: inputs, call } = toMessage(given)
    const { signal } = call
    if (signal?.aborted) throw cancellation(signal)
    this.#lastId += 1
    const id = this.#lastId
    const cancel = (): void =>
      this.#say({ kind: 'cancel', id, error: toMessage(cancellation(signal!)).message })
    signal?.addEventListener('abort', cancel)
    return await new Promise((resolve, reject) => {
      const stopListening = (): void => signal?.removeEventListener('abort', cancel)
      this.#asked.set(id, { ...call, resolve, reject, stopListening })
      this.#say({ kind: 'call', id, name, inputs })
    })
  }

  /** Calls a function at the other end without waiting for it. */
  tell(name: string, ...given: unknown[]): void {
    if (this.#end === undefined) this.#say({ kind: 'tell', name, inputs: toMessage(given).message })
  }

  #say(message: LineMessage): void {
    this.#outbox.push(message)
    if (this.#outbox.length === 1) setImmediate(() => this.flush())
  }

  /** Sends now what was said in this turn. */
  flush(): void {
    const messages = this.#outbox
    this.#outbox = []
    if (this.#end === undefined && messages.length > 0) this.#options.post(messages)
  }

  /** Call with what has arrived. */
  receive(messages: readonly LineMessage[]): void {
    for (const message of messages) this.#receive(message)
  }

  #receive(message: LineMessage): void {
    switch (message.kind) {
      case 'call':
        void this.#answer(message.id, message.name, message.inputs)
        return
      case 'tell':
        this.#call(message.name, message.inputs, {})
        return
      case 'cancel':
        this.#running.get(message.id)?.abort(fromMessage(message.error))
        return
      case 'answer': {
        const asked = this.#take(message.id)
        asked?.room?.accept(message.bytes)
        asked?.resolve(fromMessage(message.output))
        return
      }
      case 'failure':
        this.#take(message.id)?.reject(fromMessage(message.error))
    }
  }

  #take(id: number): Asked | undefined {
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    asked?.stopListening()
    return asked
  }

  async #answer(id: number, name: string, inputs: unknown): Promise<void> {
    const { budget, thread } = this.#options
    const controller = new AbortController()
    let room: ByteHold | undefined
    this.#running.set(id, controller)
    try {
      const output = await this.#call(name, inputs, {
        signal: controller.signal,
        get room() {
          room ??= budget.hold(0)
          return room
        },
      })
      const { message } = toMessage(output)
      if (this.#end !== undefined) return
      const bytes = room === undefined ? 0 : budget.handOver(room, thread)
      this.#say({ kind: 'answer', id, output: message, bytes })
    } catch (error) {
      this.#say({ kind: 'failure', id, error: toMessage(error).message })
    } finally {
      room?.release()
      this.#running.delete(id)
    }
  }

  #call(name: string, inputs: unknown, call: MessageCall): unknown {
    const answer = this.#options.answers[name] as ((...inputs: unknown[]) => unknown) | undefined
    if (answer === undefined) throw new Error(`the other thread has no ${name}`)
    return answer(...(fromMessage(inputs, call) as unknown[]))
  }

  /** The other end is gone: calls of it are cancelled, and calls to it fail. Idempotent. */
  end(error: DatabaseError): void {
    if (this.#end !== undefined) return
    this.#end = error
    for (const controller of this.#running.values()) controller.abort(error)
    for (const id of [...this.#asked.keys()]) this.#take(id)?.reject(error)
  }
}
