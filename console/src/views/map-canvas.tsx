import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import type { JsonValue } from '../api/types.ts'
import { plainText } from '../lib/filters.ts'
import type { Colouring } from '../map/colours.ts'
import type { MapPoint } from '../map/sample.ts'
import { Stage } from '../map/stage.ts'
import { Button } from '../parts/basics.tsx'
import { isDark } from '../state/theme.ts'

const shownAlpha = 225
const dimmedAlpha = 28
const labelCharacters = 24
const maxRings = 20

export function MapCanvas(props: {
  readonly positions: Float32Array<ArrayBuffer>
  readonly points: readonly MapPoint[]
  readonly values: readonly (JsonValue | undefined)[]
  readonly colouring: Colouring
  /** Only points with this value are bright. */
  readonly isolated: string | undefined
  /** Only these points are bright; undefined for all. */
  readonly found: ReadonlySet<number> | undefined
  readonly selected: readonly number[]
  readonly onHover: (point: number) => void
  readonly onSelect: (points: readonly number[]) => void
}): JSX.Element {
  const below = useRef<HTMLCanvasElement>(null)
  const above = useRef<HTMLCanvasElement>(null)
  const stage = useRef<Stage | undefined>(undefined)
  const current = useRef(props)
  const lasso = useSignal(false)
  current.current = props
  useEffect(() => {
    const made = new Stage(below.current!, above.current!, {
      hover: (point) => current.current.onHover(point),
      choose: (point) => current.current.onSelect(point < 0 ? [] : [point]),
      select: (points) => current.current.onSelect(points),
    })
    stage.current = made
    return () => made.close()
  }, [])
  useEffect(() => stage.current?.setPositions(props.positions), [props.positions])
  useEffect(
    () => stage.current?.setLabels((point) => labelOf(props.points[point])),
    [props.points, isDark.value],
  )
  useEffect(() => {
    stage.current?.setColours(bytesOf(props))
  }, [props.colouring, props.isolated, props.found, props.selected])
  useEffect(() => {
    const { groupOf, legend } = props.colouring
    const names = legend.map(({ text }) => (text.length > 24 ? `${text.slice(0, 24)}…` : text))
    stage.current?.setGroups({ groupOf, names })
  }, [props.colouring, isDark.value])
  useEffect(() => {
    // Many rings would hide the points that they mark, so a large selection only dims the other points.
    stage.current?.setMarked(props.selected.length <= maxRings ? props.selected : [])
  }, [props.selected])
  // Before any further event: an effect after the next frame would let a quick drag move the picture.
  useLayoutEffect(() => stage.current?.setLasso(lasso.value), [lasso.value])
  const text = `A map of ${props.points.length} points. Points that are near each other in the collection are near each other here.`
  return (
    <div class="map-canvas">
      <canvas ref={below} role="img" aria-label={text} />
      <canvas ref={above} class={lasso.value ? 'lasso' : ''} />
      <div class="map-buttons">
        <Button icon="plus" label="Zoom in" onClick={() => stage.current?.zoom(1.6)} />
        <Button icon="minus" label="Zoom out" onClick={() => stage.current?.zoom(1 / 1.6)} />
        <Button icon="fit" label="Show all" onClick={() => stage.current?.showAll()} />
        <Button
          icon="lasso"
          label="Select by drawing around points"
          pressed={lasso.value}
          onClick={() => {
            lasso.value = !lasso.value
          }}
        />
      </div>
    </div>
  )
}

function labelOf(point: MapPoint | undefined): string {
  const content = point?.payload.content ?? ''
  if (point?.payload.content_type === 'Image') return ''
  return content.length <= labelCharacters ? content : `${content.slice(0, labelCharacters)}…`
}

function bytesOf(props: {
  readonly points: readonly MapPoint[]
  readonly values: readonly (JsonValue | undefined)[]
  readonly colouring: Colouring
  readonly isolated: string | undefined
  readonly found: ReadonlySet<number> | undefined
  readonly selected: readonly number[]
}): Uint8Array<ArrayBuffer> {
  const { points, values, colouring, isolated, found, selected } = props
  const chosen = selected.length > 1 ? new Set(selected) : undefined
  const bytes = new Uint8Array(points.length * 4)
  for (let point = 0; point < points.length; point++) {
    bytes.set(colouring.rgb.subarray(point * 3, point * 3 + 3), point * 4)
    const value = values[point]
    const isBright =
      (found === undefined || found.has(point)) &&
      (chosen === undefined || chosen.has(point)) &&
      (isolated === undefined || (value !== undefined && plainText(value) === isolated))
    bytes[point * 4 + 3] = isBright ? shownAlpha : dimmedAlpha
  }
  return bytes
}
