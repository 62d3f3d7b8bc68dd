import type { PeerMethod } from './peer-methods.ts'

export interface PeerAsk {
  readonly signal?: AbortSignal | undefined
  /** Absent: the link's own. */
  readonly timeoutMs?: number | undefined
}

/** The other nodes of the cluster, as a node asks them. */
export interface Peers {
  /**
   * Asks a node for one answer.
   *
   * @throws DatabaseError the node's own; `not_ready` when it cannot be reached, `deadline_exceeded` when it takes too long
   */
  ask(node: string, method: PeerMethod, body: Uint8Array, options?: PeerAsk): Promise<Buffer>
  /** Asks a node for an answer in many parts, which it makes as they are taken. To be read once. */
  stream(node: string, method: PeerMethod, body: Uint8Array, options?: PeerAsk): AsyncIterable<Buffer>
}

/** Who asks, and for how long. */
export interface PeerCall {
  readonly node: string
  /** Aborts when the other node does not want the answer any more. */
  readonly signal: AbortSignal
}

/** Answers what other nodes ask: a promise of one answer, or its parts. */
export type PeerHandler = (body: Buffer, call: PeerCall) => Promise<Uint8Array> | AsyncIterable<Uint8Array>

/** By method; asked anew for each question. */
export interface PeerHandlers {
  get(method: number): PeerHandler | undefined
}
