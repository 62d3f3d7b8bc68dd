import { type ErrorNote, errorOf, noteOf } from './error-note.ts'

/** What one side may be asked: functions of at most one value, which crosses as a message, as does the result. */
export type Questions<Side> = { readonly [Name in keyof Side]: (asked: never) => unknown }

/** How a side answers. */
export type Handlers<Side extends Questions<Side>> = {
  readonly [Name in keyof Side]: (
    ...asked: Parameters<Side[Name]>
  ) => ReturnType<Side[Name]> | Promise<ReturnType<Side[Name]>>
}

/** As both ends of a `Worker` have it. */
interface Port {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: unknown) => void): unknown
}

type Envelope =
  | { readonly kind: 'ask'; readonly number: number; readonly name: string; readonly value: unknown }
  | { readonly kind: 'tell'; readonly name: string; readonly value: unknown }
  | { readonly kind: 'answer'; readonly number: number; readonly value: unknown }
  | { readonly kind: 'failure'; readonly number: number; readonly error: ErrorNote }

/** Questions and answers by message between two threads: for what is rare. */
export class Exchange<Theirs extends Questions<Theirs>, Ours extends Questions<Ours>> {
  readonly #port: Port
  readonly #handlers: Handlers<Ours>
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>()
  #questions = 0
  #ended: Error | undefined

  constructor(port: Port, handlers: Handlers<Ours>) {
    this.#port = port
    this.#handlers = handlers
    port.on('message', (message) => void this.#hear(message as Envelope))
  }

  /** @throws what the other side has thrown, or `end` was called with */
  ask<Name extends keyof Theirs & string>(
    name: Name,
    ...[value]: Parameters<Theirs[Name]>
  ): Promise<ReturnType<Theirs[Name]>> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    this.#questions += 1
    const answer = Promise.withResolvers<unknown>()
    this.#asked.set(this.#questions, answer)
    this.#post({ kind: 'ask', number: this.#questions, name, value })
    return answer.promise as Promise<ReturnType<Theirs[Name]>>
  }

  /** For what needs no answer: its handler must not throw. */
  tell<Name extends keyof Theirs & string>(name: Name, ...[value]: Parameters<Theirs[Name]>): void {
    this.#post({ kind: 'tell', name, value })
  }

  /** There will be no answers any more. */
  end(error: Error): void {
    this.#ended = error
    for (const { reject } of this.#asked.values()) reject(error)
    this.#asked.clear()
  }

  async #hear(envelope: Envelope): Promise<void> {
    if (envelope.kind === 'tell') {
      this.#handlerOf(envelope.name)(envelope.value)
    } else if (envelope.kind === 'ask') {
      this.#post(await this.#answer(envelope.number, envelope.name, envelope.value))
    } else {
      const asked = this.#asked.get(envelope.number)
      this.#asked.delete(envelope.number)
      if (envelope.kind === 'answer') asked?.resolve(envelope.value)
      else asked?.reject(errorOf(envelope.error))
    }
  }

  async #answer(number: number, name: string, value: unknown): Promise<Envelope> {
    try {
      return { kind: 'answer', number, value: await this.#handlerOf(name)(value) }
    } catch (thrown) {
      return { kind: 'failure', number, error: noteOf(thrown) }
    }
  }

  #handlerOf(name: string): (value: unknown) => unknown {
    return this.#handlers[name as keyof Ours] as (value: unknown) => unknown
  }

  #post(envelope: Envelope): void {
    this.#port.postMessage(envelope)
  }
}
