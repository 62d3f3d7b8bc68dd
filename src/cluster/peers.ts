import type { AnswerRoom } from '../base/budgets.ts'
import type { PeerMethod } from './peer-methods.ts'

export interface PeerAsk {
  readonly signal?: AbortSignal | undefined
  /** Absent: the link's default. */
  readonly timeoutMs?: number | undefined
  /** Counts the answer as it arrives. */
  readonly room?: AnswerRoom | undefined
}

/** Sends requests to the other nodes of the cluster. */
export interface Peers {
  /**
   * Asks a node for one answer.
   *
   * @throws DatabaseError that the node answered with; `not_ready` when it cannot be reached, `deadline_exceeded`
   *   when it takes too long
   */
  ask(node: string, method: PeerMethod, body: Uint8Array, options?: PeerAsk): Promise<Buffer>
  /** Asks a node for an answer in many parts. The node makes them as they are read. To be read once. */
  stream(node: string, method: PeerMethod, body: Uint8Array, options?: PeerAsk): AsyncIterable<Buffer>
}

/** The asking node, and how long it wants the answer. */
export interface PeerCall {
  readonly node: string
  /** Aborts when the other node does not want the answer any more. */
  readonly signal: AbortSignal
  /** Counts the answer while it is made, and until it is sent. */
  readonly room?: AnswerRoom | undefined
}

/** Answers a request of another node: with a promise of one answer, or with its parts. */
export type PeerHandler = (body: Buffer, call: PeerCall) => Promise<Uint8Array> | AsyncIterable<Uint8Array>

/** Handlers by method; looked up for each request. */
export interface PeerHandlers {
  get(method: number): PeerHandler | undefined
}
