import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { isNameTaken, type MessageBus, type Peers, pingMessage, pingMs } from './requests.ts'
import { pause } from './waiting.ts'

/**
 * How a node finds out whether other nodes reach it:
 *
 *   this node ── ping, call_back ──> another node
 *             <──────── ping ───────
 *             ─────── answer ──────>
 *             <────── answer ───────   requests for this node arrive: it can be an owner
 *
 * A node that may publish and not listen, or whose name another process has, is noticed before others rely on it.
 */

/**
 * Resolves when one of these nodes has reached this one.
 *
 * @throws DatabaseError `not_ready` when none has
 */
export async function checkReached(
  nodes: readonly string[],
  peers: Peers,
  signal: AbortSignal,
): Promise<void> {
  const options = { signal, timeoutMs: 2 * pingMs }
  const asked = nodes.map((node) => peers.ask(node, 'ping', pingMessage({ callBack: true }), options))
  await Promise.any(asked).catch((cause: unknown) => {
    throw new DatabaseError(
      'not_ready',
      'no other node reaches this one, so it owns no partitions: the log servers must let it subscribe to its subject',
      { cause },
    )
  })
}

interface NameCheck {
  readonly bus: MessageBus
  readonly cluster: string
  readonly node: string
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How long a process of the same name may take to end. */
  readonly patienceMs: number
}

/**
 * Resolves when no process answers under the name of this node, which begins to answer afterwards.
 *
 * @throws Error when another process keeps the name
 */
export async function untilNameIsFree(check: NameCheck): Promise<void> {
  const { bus, cluster, node, logger, signal, patienceMs } = check
  const untilMs = performance.now() + patienceMs
  for (let attempt = 1; await isNameTaken(bus, cluster, node); attempt += 1) {
    signal.throwIfAborted()
    if (performance.now() >= untilMs) throw new Error(twinMessage(node))
    if (attempt === 1) logger.warn(`${twinMessage(node)}. Waiting in case it is just stopping`)
    await pause(500, signal)
  }
}

/** What is wrong when two processes have one name. */
export function twinMessage(node: string): string {
  return `another process runs as node ${node} of this cluster: give each a CLUSTER_NODE_NAME of its own`
}
