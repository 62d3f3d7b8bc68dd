import type { Socket } from 'node:net'
import type { Dice } from './dice.ts'
import type { Target } from './target.ts'

/** One hostile input to the service. */
export interface Input {
  /** A description for human readers. */
  readonly label: string
  /** The bytes, split into pieces that can be left out to reduce the input. */
  readonly parts: readonly Buffer[]
  /** Sends the input and judges the outcome. Fails if there is neither an answer nor a closed connection in time. */
  send(target: Target): Promise<Outcome>
  /** The same input with other parts; undefined if the right answer is known only for these parts. */
  readonly withParts: ((parts: readonly Buffer[]) => Input) | undefined
}

export interface Outcome {
  /** A short name of the answer, for the counts. */
  readonly answer: string
  /** Why the answer is wrong; undefined if it is right. */
  readonly fault?: string | undefined
}

/** A kind of inputs. */
export interface Family {
  readonly name: string
  /** How many of 100 inputs are of this family. */
  readonly share: number
  /** How many are in flight concurrently. */
  readonly lanes: number
  make(dice: Dice, world: World): Input
}

/** What inputs can refer to: stored points, which must stay unchanged. */
export interface World {
  readonly dimension: number
  readonly stored: readonly string[]
}

/** Nothing takes longer than this, including slow senders; generous for busy machines. */
export const answerTimeoutMs = 120_000

export async function inTime<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what}: no answer within ${answerTimeoutMs} ms`)),
      answerTimeoutMs,
    )
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves when a connection has closed in any way; `once` of node:events would reject on a reset. */
export function closingOf(socket: Socket): Promise<void> {
  socket.on('error', () => {})
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

/** Returns which secret an answer leaks: a stack trace, a file of the machine or a secret text. */
export function leakIn(text: string, secrets: readonly string[]): string | undefined {
  if (/\n\s+at |node:internal|\.ts:\d|node_modules/.test(text)) return 'a stack trace'
  if (text.includes('root:x:0')) return 'a file of the machine'
  return secrets.some((secret) => text.includes(secret)) ? 'a key' : undefined
}
