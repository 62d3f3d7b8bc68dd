import type { JSX } from 'preact'
import { formatCompact, formatDistance, plural } from '../lib/format.ts'
import type { LegendEntry } from '../map/colours.ts'
import type { Neighbours } from '../map/layout.ts'
import type { MapPoint } from '../map/sample.ts'
import { AttributeTags, PointContent } from '../parts/point-content.tsx'
import { hrefOf } from '../state/route.ts'

/** The legend of the colours. A click on a value dims the points with other values. */
export function Legend(props: {
  readonly title: string
  readonly legend: readonly LegendEntry[]
  readonly isolated: string | undefined
  readonly onIsolate: (text: string | undefined) => void
}): JSX.Element {
  return (
    <section>
      <h2>{props.title}</h2>
      <ul class="map-legend">
        {props.legend.map(({ colour, text, count }) => (
          <li key={text}>
            <button
              type="button"
              class="facet"
              aria-pressed={props.isolated === text}
              disabled={count === 0 || text === 'other'}
              onClick={() => props.onIsolate(props.isolated === text ? undefined : text)}
            >
              <span class="facet-text">
                <span class="colour" style={{ background: colour }} aria-hidden="true" />
                {text}
              </span>
              <span class="muted number">{count === 0 ? '' : formatCompact(count)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** How many points of a large selection are listed. */
const listed = 100
const listedNeighbours = 8

/** The selected points as a list, or a single point with its neighbours. */
export function Selection(props: {
  readonly points: readonly MapPoint[]
  readonly neighbours: Neighbours | undefined
  readonly shown: readonly number[]
  readonly onOpen: (id: string) => void
}): JSX.Element {
  const { points, neighbours, shown } = props
  const [only] = shown
  if (only === undefined) {
    return <p class="muted">Point at a dot to read it. Hold Shift and drag to select several.</p>
  }
  const point = points[only]
  if (shown.length === 1 && point !== undefined) {
    return (
      <section class="map-point">
        <PointContent payload={point.payload} />
        <AttributeTags attributes={point.payload.attributes} matched={new Set()} />
        <p class="actions">
          <button type="button" class="link" onClick={() => props.onOpen(point.id)}>
            Open
          </button>
          <a href={hrefOf('search', { by: 'id', id: point.id })}>Find similar</a>
        </p>
        {neighbours !== undefined && <NeighbourList points={points} neighbours={neighbours} point={only} />}
      </section>
    )
  }
  return (
    <section>
      <h2>{plural(shown.length, 'point')} selected</h2>
      <ul class="map-list">
        {shown.slice(0, listed).map((number) => (
          <li key={number}>
            <button type="button" class="facet" onClick={() => props.onOpen(points[number]!.id)}>
              <span class="facet-text">{textOf(points[number])}</span>
            </button>
          </li>
        ))}
      </ul>
      {shown.length > listed && <p class="muted">and {plural(shown.length - listed, 'other')}</p>}
    </section>
  )
}

function NeighbourList(props: {
  readonly points: readonly MapPoint[]
  readonly neighbours: Neighbours
  readonly point: number
}): JSX.Element {
  const { k, ids, distances } = props.neighbours
  const start = props.point * k
  const places = Array.from({ length: Math.min(k, listedNeighbours) }, (_, index) => start + index)
  return (
    <>
      <h2>Nearest</h2>
      <ul class="map-list">
        {places
          .filter((place) => ids[place]! >= 0)
          .map((place) => (
            <li key={place} class="map-neighbour">
              <span class="muted number">{formatDistance(distances[place]!)}</span>
              <span class="facet-text">{textOf(props.points[ids[place]!])}</span>
            </li>
          ))}
      </ul>
    </>
  )
}

function textOf(point: MapPoint | undefined): string {
  if (point === undefined) return ''
  return point.payload.content_type === 'Image' ? 'image' : point.payload.content
}
