import type { JSX } from 'preact'
import type { Finding } from '../lib/health.ts'
import { Icon } from './icon.tsx'

/** One finding for the operator, with advice. */
export function FindingItem({ level, title, advice }: Finding): JSX.Element {
  if (level === 'note') {
    return (
      <p class="health-note muted">
        <span class="dot note" /> {title} {advice}
      </p>
    )
  }
  return (
    <p class={`notice ${level}`}>
      <Icon name="warning" />
      <span>
        <strong>{title}</strong> {advice}
      </span>
    </p>
  )
}

/** A number with its name. Its parent is a `dl` of class `figures`. */
export function Figure(props: {
  readonly name: string
  readonly value: string
  readonly note: string
}): JSX.Element {
  return (
    <div class="figure">
      <dt>{props.name}</dt>
      <dd class="figure-value number">{props.value}</dd>
      <dd class="figure-note">{props.note}</dd>
    </div>
  )
}
