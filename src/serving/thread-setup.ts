import type { ServiceKeys } from '../base/api-key.ts'
import { type BodyCounts, ClaimCounts } from '../base/budgets.ts'
import type { ReaderSetup } from '../collections/reader-messages.ts'
import type { Config } from '../config.ts'
import type { RemoteSettings } from './remote-engine.ts'

/** What a serving thread is started with. */
export interface ThreadSetup {
  readonly config: Config
  readonly settings: RemoteSettings
  readonly keys: ServiceKeys
  /** Its number, from 1; 0 is the engine's thread. */
  readonly thread: number
  /** The memory of the counts of both budgets of bodies. */
  readonly counts: { readonly requests: SharedArrayBuffer; readonly answers: SharedArrayBuffer }
  /** For the searches that the thread runs by itself. */
  readonly reads: ReaderSetup
  /** The memory of the shared state. */
  readonly state: SharedArrayBuffer
}

export const engineThread = 0

/** The counts of a thread in the budgets that all share. */
export function countsOf({ requests, answers }: ThreadSetup['counts'], thread: number): BodyCounts {
  return { requests: new ClaimCounts(requests, thread), answers: new ClaimCounts(answers, thread) }
}
