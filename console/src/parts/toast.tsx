import { type Signal, signal } from '@preact/signals'
import type { JSX } from 'preact'
import { Icon } from './icon.tsx'

/** Short confirmations. Screen readers announce them, and they disappear automatically. */

interface Toast {
  readonly id: number
  readonly text: string
}

const shownMs = 5000
const toasts: Signal<readonly Toast[]> = signal([])
let lastId = 0

export function report(text: string): void {
  lastId++
  const toast = { id: lastId, text }
  toasts.value = [...toasts.value.slice(-3), toast]
  setTimeout(() => {
    toasts.value = toasts.value.filter((each) => each !== toast)
  }, shownMs)
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status">
      {toasts.value.map(({ id, text }) => (
        <p key={id} class="toast">
          <Icon name="check" size={16} /> {text}
        </p>
      ))}
    </div>
  )
}
