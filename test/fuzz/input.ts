import type { Socket } from 'node:net'
import type { Dice } from './dice.ts'
import type { Target } from './target.ts'

/** One hostile thing to do to the service. */
export interface Input {
  /** What it is, for people. */
  readonly label: string
  /** The bytes, cut where leaving a piece out may make a smaller input. */
  readonly parts: readonly Buffer[]
  /** Does it and judges what came of it. Fails when there was neither an answer nor an end in time. */
  send(target: Target): Promise<Outcome>
  /** The same with other parts; undefined where what is right is known for these parts alone. */
  readonly withParts: ((parts: readonly Buffer[]) => Input) | undefined
}

export interface Outcome {
  /** In a word, for the count of what was answered. */
  readonly answer: string
  /** Why the answer is wrong; undefined when it is right. */
  readonly fault?: string | undefined
}

/** A kind of inputs. */
export interface Family {
  readonly name: string
  /** Of 100 inputs, how many are of this kind. */
  readonly share: number
  /** How many are under way at once. */
  readonly lanes: number
  make(dice: Dice, world: World): Input
}

/** What inputs may refer to: points that are stored, and must stay as they are. */
export interface World {
  readonly dimension: number
  readonly stored: readonly string[]
}

/** Nothing takes longer than this, slow senders included; generous, for machines that are busy. */
export const answerTimeoutMs = 120_000

export async function inTime<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what}: nothing within ${answerTimeoutMs} ms`)),
      answerTimeoutMs,
    )
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves when a connection is gone, by whatever end: `once` of node:events would fail at a reset. */
export function closingOf(socket: Socket): Promise<void> {
  socket.on('error', () => {})
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

/** What no answer may show: where the program stands, and what it keeps secret. */
export function leakIn(text: string, secrets: readonly string[]): string | undefined {
  if (/\n\s+at |node:internal|\.ts:\d|node_modules/.test(text)) return 'a stack trace'
  if (text.includes('root:x:0')) return 'a file of the machine'
  return secrets.some((secret) => text.includes(secret)) ? 'a key' : undefined
}
