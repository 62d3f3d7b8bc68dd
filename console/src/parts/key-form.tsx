import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { keyNeeded, setKey } from '../state/session.ts'
import { Button, Field } from './basics.tsx'
import { Brand } from './navigation.tsx'

/** Asks for the API key that the server requires. */
export function KeyForm(): JSX.Element {
  const text = useSignal('')
  const input = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => input.current?.focus(), [])
  return (
    <main class="key-page">
      <form
        class="panel key-form"
        onSubmit={(event) => {
          event.preventDefault()
          setKey(text.value.trim())
        }}
      >
        <Brand />
        <h1>This server requires an API key</h1>
        <Field
          label="API key"
          hint="Kept in this tab until you close it. Sent to this server only."
          fault={keyNeeded.value === 'refused' ? 'The server refused this key.' : undefined}
        >
          {({ id, describedBy }) => (
            <input
              ref={input}
              id={id}
              type="password"
              autocomplete="off"
              required
              pattern="[ -ÿ]*"
              title="only characters that a header can have, none of them invisible"
              aria-describedby={describedBy}
              value={text.value}
              onInput={(event) => {
                text.value = event.currentTarget.value
              }}
            />
          )}
        </Field>
        <Button type="submit" kind="primary" disabled={text.value.trim() === ''}>
          Continue
        </Button>
        <p class="muted">
          Use the key from the setting <code>HTTP_API_KEY</code>, or a key from <code>API_KEYS_FILE</code>. A
          key with the role <code>read</code> can view everything but change nothing.
        </p>
      </form>
    </main>
  )
}
