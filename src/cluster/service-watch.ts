import type { Logger } from '../base/log.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { ClusterView } from './cluster-view.ts'
import type { CommitLog } from './commit-log.ts'
import { type DecidingSettings, settingsFault } from './deciding-settings.ts'
import { shortIdOf } from './log-id.ts'
import type { Membership } from './membership.ts'
import { pause } from './pause.ts'

export interface ServiceWatchOptions {
  /** This node. */
  readonly self: string
  readonly view: ClusterView
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly now: () => WatchedState
  /** Called in each round. */
  readonly onRound: () => void
}

/** What there is of a service now. */
export interface WatchedState {
  readonly log: CommitLog
  readonly membership: Membership | undefined
  /** Absent while no node runs, and during a start or refetch. */
  readonly node: ClusterNode | undefined
  readonly settings: DecidingSettings
}

/**
 * Looks at the cluster about once a second: what other nodes announce, whether their settings differ, and whether the
 * log is lost.
 */
export class ServiceWatch {
  readonly #options: ServiceWatchOptions
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
      this.#checkLog()
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

  /** Stops this node when only other nodes have noticed that the log is lost. */
  #checkLog(): void {
    const { view, now } = this.#options
    const { node, log } = now()
    const logId = shortIdOf(log)
    for (const [name, { lostLog, position }] of view.announced) {
      if (lostLog === logId)
        node?.giveUpLog(`node ${name} has applied it up to ${position} and found it lost`)
    }
  }
}

export const watchMs = 1_000
