import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useLayoutEffect } from 'preact/hooks'
import { Button, Field, Slider } from '../parts/basics.tsx'
import { embeddingModel } from '../state/collections.ts'
import { replaceParams } from '../state/route.ts'
import { type SearchQuery, usualBalance } from '../state/search-query.ts'

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

/** The words to rank by, and with a vector what each of the two counts. Words are sent as they are typed. */
export function WordsQuery(props: { readonly query: SearchQuery; readonly hasVector: boolean }): JSX.Element {
  const { words, balance } = props.query
  return (
    <>
      <Field label="Words" hint={props.hasVector ? undefined : 'Searches by these words alone.'}>
        {({ id: field, describedBy }) => (
          <input
            id={field}
            type="search"
            aria-describedby={describedBy}
            placeholder="anadama bread"
            value={words}
            onInput={(event) => replaceParams({ words: event.currentTarget.value || undefined })}
          />
        )}
      </Field>
      {words !== '' && props.hasVector && <BalanceSlider balance={balance} />}
    </>
  )
}

export function BalanceSlider({ balance }: { readonly balance: number }): JSX.Element {
  const text = `${Math.round(100 * balance)} % vector, ${Math.round(100 * (1 - balance))} % words`
  const onInput = (value: number): void =>
    replaceParams({ balance: value === usualBalance ? undefined : String(value) })
  return <Slider label="Balance" text={text} max={1} step={0.05} value={balance} onInput={onInput} />
}
