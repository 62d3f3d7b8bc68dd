import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { isAbort, messageOf } from '../api/client.ts'
import { type Facets, facetPoints } from '../api/points.ts'
import type { FacetCount, JsonObject, JsonValue } from '../api/types.ts'
import { valueText } from '../lib/filters.ts'
import { formatCompact } from '../lib/format.ts'
import { Fault } from '../parts/basics.tsx'
import { collectionName } from '../state/route.ts'

const shownPaths = 6
const shownValues = 8

/** The most frequent values of the listed attributes. A click filters by a value. */
export function FacetsPanel(props: {
  readonly filter: JsonObject
  readonly paths: readonly string[]
  readonly onChoose: (path: string, value: JsonValue) => void
}): JSX.Element | null {
  const facets = useSignal<Facets>({})
  const fault = useSignal<string | undefined>(undefined)
  const paths = props.paths.slice(0, shownPaths)
  const question = JSON.stringify([props.filter, paths])
  useEffect(() => {
    if (paths.length === 0) {
      facets.value = {}
      return
    }
    const stop = new AbortController()
    facetPoints(collectionName.value, { filter: props.filter, paths, limit: shownValues }, stop.signal).then(
      (found) => {
        facets.value = found
        fault.value = undefined
      },
      (error: unknown) => {
        if (!isAbort(error)) fault.value = messageOf(error)
      },
    )
    return () => stop.abort()
  }, [question])
  const shown = Object.entries(facets.value)
    .filter(([, counts]) => counts.length > 0)
    .sort(([, a], [, b]) => Number(isScattered(a)) - Number(isScattered(b)))
  if (shown.length === 0) return <Fault text={fault.value} />
  return (
    <aside class="facets" aria-label="Frequent values">
      {shown.map(([path, counts]) => (
        <FacetSection key={path} path={path} isOpen={!isScattered(counts)}>
          <ul>
            {counts.map(({ value, count }) => (
              <li key={JSON.stringify(value)}>
                <button type="button" class="facet" onClick={() => props.onChoose(path, value)}>
                  <span class="facet-text">{valueText(value)}</span>
                  <span class="muted number">{formatCompact(count)}</span>
                  <span class="bar" aria-hidden="true">
                    <span style={{ width: `${(count / counts[0]!.count) * 100}%` }} />
                  </span>
                </button>
              </li>
            ))}
          </ul>
        </FacetSection>
      ))}
    </aside>
  )
}

/** Whether the values are spread evenly, as numbers often are. The most frequent ones then say little. */
function isScattered(counts: readonly FacetCount[]): boolean {
  return counts.length === shownValues && counts[0]!.count < counts.at(-1)!.count * 1.5
}

function FacetSection(props: {
  readonly path: string
  readonly isOpen: boolean
  readonly children: JSX.Element
}): JSX.Element {
  return (
    <details class="facet-section" open={props.isOpen}>
      <summary>
        <h2>{props.path}</h2>
      </summary>
      {props.children}
    </details>
  )
}
