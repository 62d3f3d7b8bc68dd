import type { Logger } from '../base/log.ts'
import type { RequestOutcome } from './endpoint.ts'

/**
 * Returns a function that logs when the endpoint starts to fail and when it recovers. Failures in between are not
 * logged, because each is reported to its caller.
 *
 * @param host of the endpoint
 */
export function outageLog(logger: Logger, host: string): (outcome: RequestOutcome) => void {
  let isFailing = false
  return (outcome) => {
    // These outcomes show nothing about the state of the endpoint.
    if (outcome === 'cancelled' || outcome === 'refused_text') return
    const wasFailing = isFailing
    isFailing = outcome !== 'ok'
    if (isFailing === wasFailing) return
    if (isFailing) logger.warn({ host, outcome }, 'the embedding endpoint fails: texts cannot be embedded')
    else logger.info({ host }, 'the embedding endpoint answers again')
  }
}
