import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import type { Highlight, JsonObject, Payload } from '../api/types.ts'
import { pathsOf, plainText, valueAt } from '../lib/filters.ts'
import { imageSourceOf, webOriginOf } from '../lib/image-source.ts'
import { serviceConfig } from '../state/service-config.ts'
import { Icon } from './icon.tsx'

/** Longer texts are cut off here. The dialog of the point shows them in full. */
const shownCharacters = 600

/** The content of a point: an image, or plain text that is never interpreted as HTML. */
export function PointContent({
  payload,
  found = [],
  whole = false,
}: {
  readonly payload: Payload
  /** The parts of the content to show in its place. */
  readonly found?: readonly Highlight[] | undefined
  readonly whole?: boolean
}): JSX.Element {
  const { content, content_type } = payload
  if (content_type === 'Image') return <ImageContent content={content} />
  if (found.length > 0) {
    return (
      <p class="content">
        {found.map(({ parts }, index) => (
          <span key={index}>
            {index > 0 && ' … '}
            <Found parts={parts} />
          </span>
        ))}
      </p>
    )
  }
  if (content === '') return <p class="content muted">No content</p>
  const text = whole || content.length <= shownCharacters ? content : `${content.slice(0, shownCharacters)}…`
  return <p class={whole ? 'content whole' : 'content'}>{text}</p>
}

/** A text with what was found in it marked. */
export function Found({ parts }: Pick<Highlight, 'parts'>): JSX.Element {
  return <>{parts.map((part, index) => (index % 2 === 0 ? part : <mark key={index}>{part}</mark>))}</>
}

/** An image if it may be loaded; otherwise its address and the reason why it is not shown. */
function ImageContent({ content }: { readonly content: string }): JSX.Element {
  const failed = useSignal(false)
  const source = imageSourceOf(content, serviceConfig.value.imageOrigins)
  const isData = content.startsWith('data:')
  if (source !== undefined && !failed.value) {
    return (
      <img
        class="content-image"
        src={source}
        alt={isData ? 'The content of this point' : content}
        loading="lazy"
        decoding="async"
        referrerpolicy="no-referrer"
        onError={() => {
          failed.value = true
        }}
      />
    )
  }
  const origin = webOriginOf(content)
  const shown = content.length > shownCharacters ? `${content.slice(0, 80)}…` : content
  return (
    <div class="image-address">
      <Icon name="image" size={20} />
      <p class="content">{shown === '' ? 'No content' : shown}</p>
      <p class="hint">{reasonOf(failed.value, origin)}</p>
    </div>
  )
}

function reasonOf(hasFailed: boolean, origin: string | undefined): string {
  if (hasFailed) return 'The image could not be loaded.'
  if (origin === undefined) return 'This is not an image that a browser can show.'
  return `Not loaded: CONSOLE_IMAGE_ORIGINS does not include ${origin}.`
}

/** The maximum number of attributes that a result shows. The dialog of the point shows all of them. */
const shownAttributes = 12

export function AttributeTags(props: {
  readonly attributes: JsonObject | undefined
  readonly matched: ReadonlySet<string>
}): JSX.Element | null {
  const { attributes, matched } = props
  if (attributes === undefined) return null
  const paths = pathsOf(attributes)
  const first = [...paths]
    .sort((a, b) => Number(matched.has(b)) - Number(matched.has(a)))
    .slice(0, shownAttributes)
  return (
    <ul class="tags">
      {first.map((path) => (
        <li key={path} class={matched.has(path) ? 'tag matched' : 'tag'}>
          <Colour value={valueAt(attributes, path)} />
          {path}: {plainText(valueAt(attributes, path))}
        </li>
      ))}
      {paths.length > first.length && <li class="tag">{paths.length - first.length} more</li>}
    </ul>
  )
}

/** A swatch for a value that is a hexadecimal colour. */
function Colour({ value }: { readonly value: JsonObject[string] | undefined }): JSX.Element | null {
  if (typeof value !== 'string' || !/^#[\da-f]{6}$/i.test(value)) return null
  return <span class="colour" style={{ background: value }} aria-hidden="true" />
}
