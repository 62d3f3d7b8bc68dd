import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { isAbort, messageOf } from '../api/client.ts'
import { type Facets, facetPoints } from '../api/points.ts'
import type { FacetCount, JsonObject, JsonValue } from '../api/types.ts'
import { plainText } from '../lib/filters.ts'
import { formatCompact } from '../lib/format.ts'
import { Fault } from '../parts/basics.tsx'
import { collectionName } from '../state/route.ts'

/** The most paths that one request may have. The values of further attributes are loaded when they are opened. */
const requestPaths = 16
const shownValues = 8
/** Below this width, the attributes are above the points and all closed, so that the points stay in view. */
const besidePx = 1000

/** All attributes, with their most frequent values. A click filters by a value. */
export function FacetsPanel(props: {
  readonly filter: JsonObject
  readonly paths: readonly string[]
  readonly onChoose: (path: string, value: JsonValue) => void
}): JSX.Element | null {
  /** Undefined until the first values are there: the attributes are shown together with them, so that nothing moves. */
  const facets = useSignal<Facets | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  /** The attributes that the user has opened or closed. */
  const chosen = useSignal<ReadonlyMap<string, boolean>>(new Map())
  const asked = props.paths.filter((path, index) => index < requestPaths || chosen.value.get(path) === true)
  const question = JSON.stringify([props.filter, asked])
  useEffect(() => {
    const stop = new AbortController()
    loadFacets(props.filter, asked, stop.signal).then(
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
  const found = facets.value
  if (found === undefined) return <Fault text={fault.value} />
  const isBeside = innerWidth > besidePx
  const sections = props.paths
    // No matching point has this attribute.
    .filter((path) => found[path]?.length !== 0)
    .map((path) => {
      const counts = found[path]
      const isUseful = counts !== undefined && !isScattered(counts)
      return { path, counts, isUseful, isOpen: chosen.value.get(path) ?? (isUseful && isBeside) }
    })
    .sort((a, b) => Number(b.isUseful) - Number(a.isUseful))
  if (sections.length === 0) return <Fault text={fault.value} />
  return (
    <aside class="facets" aria-label="Frequent values">
      {sections.map(({ path, counts, isOpen }) => (
        <details
          key={path}
          class="facet-section"
          open={isOpen}
          onToggle={({ currentTarget: { open } }) => {
            if (open !== isOpen) chosen.value = new Map(chosen.value).set(path, open)
          }}
        >
          <summary>
            <h2>{path}</h2>
          </summary>
          {counts !== undefined && (
            <FacetValues counts={counts} onChoose={(value) => props.onChoose(path, value)} />
          )}
        </details>
      ))}
    </aside>
  )
}

async function loadFacets(
  filter: JsonObject,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<Facets> {
  const found: Facets[] = []
  for (let at = 0; at < paths.length; at += requestPaths) {
    const query = { filter, paths: paths.slice(at, at + requestPaths), limit: shownValues }
    found.push(await facetPoints(collectionName.value, query, signal))
  }
  return Object.assign({}, ...found)
}

/** Whether the values are spread evenly, as numbers often are. The most frequent ones then say little. */
function isScattered(counts: readonly FacetCount[]): boolean {
  return counts.length === shownValues && counts[0]!.count < counts.at(-1)!.count * 1.5
}

function FacetValues(props: {
  readonly counts: readonly FacetCount[]
  readonly onChoose: (value: JsonValue) => void
}): JSX.Element {
  const { counts } = props
  return (
    <ul>
      {counts.map(({ value, count }) => (
        <li key={JSON.stringify(value)}>
          <button type="button" class="facet" onClick={() => props.onChoose(value)}>
            <span class="facet-text">{plainText(value)}</span>
            <span class="muted number">{formatCompact(count)}</span>
            <span class="bar" aria-hidden="true">
              <span style={{ width: `${(count / counts[0]!.count) * 100}%` }} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  )
}
