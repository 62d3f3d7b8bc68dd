import type { JSX } from 'preact'
import type { PreviewRow } from '../import/messages.ts'
import { plural } from '../lib/format.ts'
import { vectorPreview } from '../lib/vector-text.ts'
import { Panel } from '../parts/basics.tsx'
import { AttributeTags, PointContent } from '../parts/point-content.tsx'

const nothingMatched: ReadonlySet<string> = new Set()

/** A preview of the first rows as points. */
export function PreviewPanel({ rows }: { readonly rows: readonly PreviewRow[] }): JSX.Element {
  return (
    <Panel title={`The first ${plural(rows.length, 'point')}`} class="flush titled">
      <ol class="preview-list">
        {rows.map((row, index) => (
          <li key={index} class="point-row">
            <PreviewItem row={row} />
          </li>
        ))}
      </ol>
    </Panel>
  )
}

function PreviewItem({ row }: { readonly row: PreviewRow }): JSX.Element {
  if ('fault' in row) return <p class="hint fault">Skipped: {row.fault}</p>
  const { point: made } = row
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
