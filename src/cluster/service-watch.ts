import type { Logger } from '../base/log.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { ClusterView } from './cluster-view.ts'
import type { CommitLog } from './commit-log.ts'
import { type DecidingSettings, settingsFault } from './deciding-settings.ts'
import { shortIdOf } from './log-id.ts'
import type { Membership } from './membership.ts'
import type { NatsCluster } from './nats-cluster.ts'
import { pause } from './pause.ts'
import { mayRegain } from './regain-turn.ts'

export interface ServiceWatchOptions {
  /** This node. */
  readonly self: string
  readonly view: ClusterView
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly now: () => WatchedState
  /** Called when this node should leave a lost log for the new one. */
  readonly onReplaced: () => void
  /** Called in each round. */
  readonly onRound: () => void
}

/** What there is of a service now. */
export interface WatchedState {
  readonly log: CommitLog
  readonly membership: Membership | undefined
  readonly nats: NatsCluster | undefined
  /** Absent while no node runs, and during a start, refetch or repair. */
  readonly node: ClusterNode | undefined
  readonly settings: DecidingSettings
}

/**
 * Looks at the cluster about once a second: what other nodes announce, whether their settings differ, whether the log
 * is lost, and whether there is a new one in its place.
 */
export class ServiceWatch {
  readonly #options: ServiceWatchOptions
  /** When this node saw that another log has replaced the lost one, by `performance.now()`. */
  #replacedMs: number | undefined
  /** How the settings of another node differ from those of this one, when that was reported. */
  #settingsFault: string | undefined

  constructor(options: ServiceWatchOptions) {
    this.#options = options
  }

  /** Resolves soon after the signal aborts. */
  async run(): Promise<void> {
    const { view, signal, now, onRound } = this.#options
    while (!signal.aborted) {
      const { log, membership } = now()
      await view.refresh(log, membership)
      this.#compareSettings()
      await this.#checkLog()
      onRound()
      await pause(watchMs, signal)
    }
  }

  /** Reports a node with other settings that did not notice the difference when it started. */
  #compareSettings(): void {
    const { self, view, now, logger } = this.#options
    const fault = settingsFault(self, now().settings, view.announced)
    if (fault !== undefined && fault !== this.#settingsFault) logger.error(fault)
    this.#settingsFault = fault
  }

  /** Reacts to a lost log, also when only other nodes have noticed that, and to a new log in its place. */
  async #checkLog(): Promise<void> {
    const { self, view, now, onReplaced } = this.#options
    const { node, log, nats } = now()
    if (node === undefined) return
    const logId = shortIdOf(log)
    for (const [name, { lostLog, position }] of view.announced) {
      if (lostLog === logId) node.giveUpLog(`node ${name} has applied it up to ${position} and found it lost`)
    }
    if (node.lostLog === undefined) return
    // Without an answer, the next round asks again.
    if (!(await nats?.isReplaced().catch(() => false))) return
    this.#replacedMs ??= performance.now()
    const waitedMs = performance.now() - this.#replacedMs
    if (waitedMs < turnMsMax && !mayRegain(self, node.position, view)) return
    this.#replacedMs = undefined
    onReplaced()
  }
}

export const watchMs = 1_000
/** How long the other nodes get to serve with the new log first. They may never do so. */
const turnMsMax = 10_000
