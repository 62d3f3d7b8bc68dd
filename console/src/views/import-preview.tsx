import type { JSX } from 'preact'
import type { JsonObject, NewPoint } from '../api/types.ts'
import type { Mapping } from '../import/mapping.ts'
import type { Inspection } from '../import/messages.ts'
import { pointOf } from '../import/point.ts'
import { plural } from '../lib/format.ts'
import { vectorPreview } from '../lib/vector-text.ts'
import { Panel } from '../parts/basics.tsx'
import { AttributeTags, PointContent } from '../parts/point-content.tsx'

const shownPoints = 5
const nothingMatched: ReadonlySet<string> = new Set()

/** A preview of the first rows as points. */
export function PreviewPanel(props: {
  readonly inspection: Inspection
  readonly mapping: Mapping
}): JSX.Element {
  const { inspection, mapping } = props
  const records = inspection.records.slice(0, shownPoints)
  return (
    <Panel title={`The first ${plural(records.length, 'point')}`} class="flush titled">
      <ol class="preview-list">
        {records.map((record, index) => (
          <li key={index} class="point-row">
            <PreviewItem made={pointOrFault(record, mapping, inspection.isTyped)} />
          </li>
        ))}
      </ol>
    </Panel>
  )
}

function pointOrFault(record: JsonObject, mapping: Mapping, isTyped: boolean): NewPoint | string {
  if (mapping.vector === '') return 'No column is selected as the vector.'
  try {
    return pointOf(record, mapping, isTyped)
  } catch (error) {
    return (error as Error).message
  }
}

function PreviewItem({ made }: { readonly made: NewPoint | string }): JSX.Element {
  if (typeof made === 'string') return <p class="hint fault">Skipped: {made}</p>
  return (
    <div class="result-body">
      <PointContent payload={made.payload} />
      <AttributeTags attributes={made.payload.attributes} matched={nothingMatched} />
      <p class="muted mono preview-vector">
        {made.id === undefined ? '' : `${made.id}  `}
        {made.vector === undefined ? '' : vectorPreview(made.vector)}
      </p>
    </div>
  )
}
