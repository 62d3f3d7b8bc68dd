import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { isAbort } from '../api/client.ts'
import { getPoint } from '../api/points.ts'
import type { Payload } from '../api/types.ts'
import { PointContent } from '../parts/point-content.tsx'
import { collectionName } from '../state/route.ts'

/** The content of the point that is searched near to. */
export function NearPoint({ id }: { readonly id: string }): JSX.Element | null {
  const payload = useSignal<Payload | undefined>(undefined)
  useEffect(() => {
    const stop = new AbortController()
    getPoint(collectionName.value, id, stop.signal).then(
      (point) => {
        payload.value = point.payload
      },
      (error: unknown) => {
        // The search for the same point says what is wrong with it.
        if (!isAbort(error)) payload.value = undefined
      },
    )
    return () => stop.abort()
  }, [id])
  if (payload.value === undefined || payload.value.content === '') return null
  return (
    <div class="near-point">
      <PointContent payload={payload.value} />
    </div>
  )
}
