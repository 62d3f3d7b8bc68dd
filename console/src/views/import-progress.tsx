import type { JSX } from 'preact'
import { placeText } from '../../../src/import/file.ts'
import { formatBytes, formatCount, plural } from '../lib/format.ts'
import { Button, Fault, Panel } from '../parts/basics.tsx'
import type { ImportRun, Phase } from '../state/import-run.ts'
import { hrefOf } from '../state/route.ts'

const phaseTexts: Readonly<Record<Phase, string>> = {
  reading: 'Reading',
  ready: 'Ready for',
  refused: 'Refused',
  running: 'Importing',
  paused: 'Paused:',
  done: 'Imported',
  stopped: 'Stopped:',
  failed: 'Interrupted:',
}

/** The progress of an import, and the skipped rows. */
export function ImportProgress(props: {
  readonly run: ImportRun
  readonly onOther: () => void
}): JSX.Element {
  const { run } = props
  const phase = run.phase.value
  const { size } = run.file
  const isOver = phase === 'done' || phase === 'stopped' || phase === 'failed'
  const unit = run.inspection.value?.unit ?? 'row'
  return (
    <>
      <Panel
        title={`${phaseTexts[phase]} ${run.file.name}`}
        actions={isOver ? undefined : <Controls run={run} />}
      >
        <progress class="progress" max={size} value={run.readBytes.value} aria-label="Progress" />
        <p class="progress-text" role="status">
          <strong class="number">{formatCount(run.stored.value)}</strong>{' '}
          {run.stored.value === 1 ? 'point' : 'points'} stored,{' '}
          <span class="number">{formatBytes(run.readBytes.value)}</span> of {formatBytes(size)}
          {run.faultCount.value > 0 && `, ${plural(run.faultCount.value, unit)} skipped`}
        </p>
        {!isOver && run.waiting.value !== undefined && (
          <p class="hint" role="status">
            Retrying: {run.waiting.value}
          </p>
        )}
        {phase === 'stopped' && (
          <p class="muted below">
            The stored points are kept. To resume later, choose the same file again within 23 hours.
          </p>
        )}
        {run.notStored.value !== undefined && <p class="muted below">{run.notStored.value}</p>}
        <Fault text={run.message.value} />
        {isOver && <Next {...props} />}
      </Panel>
      <Skipped run={run} unit={unit} />
    </>
  )
}

function Controls({ run }: { readonly run: ImportRun }): JSX.Element {
  return (
    <>
      {run.phase.value === 'paused' ? (
        <Button icon="play" onClick={() => run.resume()}>
          Resume
        </Button>
      ) : (
        <Button icon="pause" onClick={() => run.pause()}>
          Pause
        </Button>
      )}
      <Button kind="danger" onClick={() => run.stop()}>
        Stop
      </Button>
    </>
  )
}

function Next({ run, onOther }: { readonly run: ImportRun; readonly onOther: () => void }): JSX.Element {
  const canResume = run.phase.value !== 'done'
  return (
    <div class="actions below">
      {canResume && (
        <Button kind="primary" icon="play" onClick={() => run.tryAgain()}>
          Resume
        </Button>
      )}
      <a class={canResume ? 'button' : 'button primary'} href={hrefOf('search')}>
        Search {run.collection}
      </a>
      <Button onClick={onOther}>Import another file</Button>
    </div>
  )
}

function Skipped({
  run,
  unit,
}: {
  readonly run: ImportRun
  readonly unit: 'line' | 'row'
}): JSX.Element | null {
  const count = run.faultCount.value
  if (count === 0) return null
  const faults = [...run.faults.value].sort((a, b) => a.place - b.place)
  return (
    <Panel title={`Skipped ${unit === 'line' ? 'lines' : 'rows'}`}>
      <ul class="line-faults">
        {faults.map(({ place, message }) => (
          <li key={place}>
            <span class="muted number">{placeText(unit, place, formatCount)}</span> {message}
          </li>
        ))}
      </ul>
      {count > faults.length && <p class="muted below">and {formatCount(count - faults.length)} more</p>}
    </Panel>
  )
}
