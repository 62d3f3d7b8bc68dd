import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { insertPoint } from '../api/points.ts'
import type { ContentType } from '../api/types.ts'
import { isEmptyFilter } from '../lib/filters.ts'
import { parseVector } from '../lib/vector-text.ts'
import { AttributeForm, attributesIn, useAttributeDraft } from '../parts/attribute-form.tsx'
import { Field, Segments } from '../parts/basics.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { report } from '../parts/toast.tsx'
import { currentCollection, embeddingModel } from '../state/collections.ts'
import { collectionName, replaceParams } from '../state/route.ts'

export function InsertDialog(props: {
  readonly onInserted: () => void
  readonly onClose: () => void
}): JSX.Element {
  const vectorText = useSignal('')
  const contentType = useSignal<ContentType>('Text')
  const content = useSignal('')
  const attributes = useAttributeDraft()
  const idText = useSignal('')
  const dimension = currentCollection.value?.dimension
  const parsed = parseVector(vectorText.value)
  const isEmbedded =
    embeddingModel.value !== undefined && contentType.value === 'Text' && vectorText.value.trim() === ''
  const fault = vectorText.value === '' || 'vector' in parsed ? undefined : parsed.fault
  const insert = async (): Promise<void> => {
    if (!isEmbedded && 'fault' in parsed) throw new Error(parsed.fault)
    const given = attributesIn(attributes)
    const id = await insertPoint(collectionName.value, {
      ...(idText.value.trim() === '' ? {} : { id: idText.value.trim() }),
      ...('vector' in parsed && !isEmbedded ? { vector: parsed.vector } : {}),
      payload: {
        content_type: contentType.value,
        content: content.value,
        ...(isEmptyFilter(given) ? {} : { attributes: given }),
      },
    })
    report('Stored the point.')
    props.onInserted()
    replaceParams({ id })
  }
  return (
    <FormDialog title="Insert point" submit="Insert" wide onSubmit={insert} onClose={props.onClose}>
      <Field
        label="Vector"
        hint={
          isEmbedded
            ? `If empty, ${embeddingModel.value} embeds the content.`
            : dimension === undefined
              ? 'Its length becomes the dimension of the collection.'
              : `${dimension} numbers.`
        }
        fault={fault}
      >
        {({ id, describedBy }) => (
          <textarea
            id={id}
            class="mono"
            aria-describedby={describedBy}
            required={embeddingModel.value === undefined || contentType.value !== 'Text'}
            spellcheck={false}
            value={vectorText.value}
            onInput={(event) => {
              vectorText.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
      <div>
        <Segments
          label="Content type"
          options={[
            ['Text', 'Text'],
            ['Image', 'Image'],
          ]}
          value={contentType.value}
          onChange={(chosen) => {
            contentType.value = chosen
          }}
        />
      </div>
      <Field label="Content">
        {({ id }) => (
          <textarea
            id={id}
            value={content.value}
            onInput={(event) => {
              content.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
      <AttributeForm label="Attributes" draft={attributes} />
      <Field label="Id" hint="A UUID. If empty, the server chooses one.">
        {({ id, describedBy }) => (
          <input
            id={id}
            class="mono"
            aria-describedby={describedBy}
            spellcheck={false}
            value={idText.value}
            onInput={(event) => {
              idText.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
    </FormDialog>
  )
}
