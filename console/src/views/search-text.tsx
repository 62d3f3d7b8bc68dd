import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useLayoutEffect } from 'preact/hooks'
import { Button, Field } from '../parts/basics.tsx'
import { embeddingModel } from '../state/collections.ts'
import { replaceParams } from '../state/route.ts'

/** A text query. It is sent only when it is submitted: each text costs a request to the embedding endpoint. */
export function TextQuery({ text }: { readonly text: string }): JSX.Element {
  const typed = useSignal(text)
  const model = embeddingModel.value
  useLayoutEffect(() => {
    typed.value = text
  }, [text])
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        replaceParams({ by: 'text', text: typed.value.trim() })
      }}
    >
      <Field label="Text" {...(model === undefined ? {} : { hint: `Embedded by ${model}.` })}>
        {({ id, describedBy }) => (
          <span class="with-button">
            <input
              id={id}
              type="search"
              aria-describedby={describedBy}
              placeholder="how to mend a bicycle"
              value={typed.value}
              onInput={(event) => {
                typed.value = event.currentTarget.value
              }}
            />
            <Button type="submit" icon="search" label="Search" disabled={typed.value.trim() === ''} />
          </span>
        )}
      </Field>
    </form>
  )
}
