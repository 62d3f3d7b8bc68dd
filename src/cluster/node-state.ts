import type { NodeState } from '../base/cluster-status.ts'

/** What happens to a node. Only `next` decides what follows. */
export type NodeEvent =
  /** It is a member, and its data belong to the log. */
  | 'usable'
  /** Its data are missing, damaged, too old for the log, or contradicted; or an operator does not want them. */
  | 'unusable'
  /** The data of another node have replaced its own. */
  | 'copied'
  /** It has applied everything that was in the log. */
  | 'caughtUp'
  | 'drained'
  | 'undrained'
  /** The log is gone, or shorter than what some node has applied. */
  | 'logLost'
  /** It has unloaded its data because the log is lost, and looks for the log again. */
  | 'retried'
  /** It cannot apply a record, and a copy would not help. */
  | 'failed'

const transitions: Readonly<Record<NodeState, Partial<Readonly<Record<NodeEvent, NodeState>>>>> = {
  joining: { usable: 'catchingUp', unusable: 'copying', logLost: 'logLost' },
  copying: { copied: 'catchingUp', logLost: 'logLost' },
  catchingUp: { caughtUp: 'serving', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  serving: { drained: 'draining', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  draining: { undrained: 'serving', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  logLost: { retried: 'joining' },
  failed: { unusable: 'copying', logLost: 'logLost' },
}

/**
 * The state after an event. An event that means nothing in a state changes nothing. docs/node-states.md draws the
 * states.
 */
export function next(state: NodeState, event: NodeEvent): NodeState {
  return transitions[state][event] ?? state
}
