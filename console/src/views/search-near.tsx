import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { isAbort } from '../api/client.ts'
import { getPoint } from '../api/points.ts'
import type { Payload } from '../api/types.ts'
import { PointContent } from '../parts/point-content.tsx'
import { collectionName } from '../state/route.ts'

/**
 * The content of the query point.
 *
 * @param props.isAnswered whether the search has finished: loading the content earlier would delay the search
 */
export function NearPoint(props: { readonly id: string; readonly isAnswered: boolean }): JSX.Element | null {
  const { id, isAnswered } = props
  const payload = useSignal<Payload | undefined>(undefined)
  useEffect(() => {
    if (!isAnswered) return
    const stop = new AbortController()
    const load = async (): Promise<void> => {
      try {
        payload.value = (await getPoint(collectionName.value, id, stop.signal)).payload
      } catch (error) {
        // The search for the same point already shows the error.
        if (!isAbort(error)) payload.value = undefined
      }
    }
    // Deferred, so that a search that starts right now is sent first.
    const timer = setTimeout(load)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [id, isAnswered])
  if (payload.value === undefined || payload.value.content === '') return null
  return (
    <div class="near-point">
      <PointContent payload={payload.value} />
    </div>
  )
}
