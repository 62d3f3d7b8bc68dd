import type { Logger } from '../base/log.ts'
import type { RequestOutcome } from './endpoint.ts'

/**
 * Logs when the endpoint begins to fail and when it answers again, not every request between: callers are told of each.
 *
 * @param host of the endpoint
 */
export function outageLog(logger: Logger, host: string): (outcome: RequestOutcome) => void {
  let isFailing = false
  return (outcome) => {
    // Neither says anything about the endpoint.
    if (outcome === 'cancelled' || outcome === 'refused_text') return
    const wasFailing = isFailing
    isFailing = outcome !== 'ok'
    if (isFailing === wasFailing) return
    if (isFailing) logger.warn({ host, outcome }, 'the embedding endpoint fails: texts cannot be embedded')
    else logger.info({ host }, 'the embedding endpoint answers again')
  }
}
