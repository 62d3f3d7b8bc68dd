import { type ReadonlySignal, type Signal, signal } from '@preact/signals'

/** The API key of this tab. It is kept until the tab closes, and is sent to this server only. */

const storedAs = 'vicinal-key'

const current: Signal<string | undefined> = signal(sessionStorage.getItem(storedAs) ?? undefined)
export const key: ReadonlySignal<string | undefined> = current

/** Whether the server requires a key that is missing, or has refused the current one. */
export const keyNeeded: Signal<'no' | 'missing' | 'refused'> = signal('no')

export function setKey(text: string): void {
  current.value = text
  sessionStorage.setItem(storedAs, text)
  keyNeeded.value = 'no'
}

export function removeKey(): void {
  current.value = undefined
  sessionStorage.removeItem(storedAs)
}

/** @param sent the key of the refused request; it may be older than the current key */
export function keyRefused(sent: string | undefined): void {
  if (sent !== current.peek()) return
  keyNeeded.value = sent === undefined ? 'missing' : 'refused'
}
