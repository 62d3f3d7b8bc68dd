import type { JSX } from 'preact'
import type { JsonObject, Payload } from '../api/types.ts'
import { pathsOf, valueText } from '../lib/filters.ts'

/** Images that cannot run anything: the browser loads them as images only, and from nowhere else. */
const imageUrl = /^data:image\/(?:png|jpeg|gif|webp|avif|svg\+xml)[;,]/

/** More than this of a text is shown in the point's own page only. */
const shownCharacters = 600

/** The content of a point. All of it is text to the page, or an image. */
export function PointContent({
  payload,
  whole = false,
}: {
  readonly payload: Payload
  readonly whole?: boolean
}): JSX.Element {
  const { content, content_type } = payload
  if (content_type === 'Image' && imageUrl.test(content)) {
    return <img class="content-image" src={content} alt="The content of this point" loading="lazy" />
  }
  if (content === '') return <p class="content muted">No content</p>
  const text = whole || content.length <= shownCharacters ? content : `${content.slice(0, shownCharacters)}…`
  return <p class={whole ? 'content whole' : 'content'}>{text}</p>
}

/** How many attributes a result shows; a point's own page has them all. */
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
          {path}: {valueText(valueAt(attributes, path))}
        </li>
      ))}
      {paths.length > first.length && <li class="tag">{paths.length - first.length} more</li>}
    </ul>
  )
}

export function valueAt(attributes: JsonObject, path: string): JsonObject[string] | undefined {
  if (path in attributes) return attributes[path]
  const [name, ...rest] = path.split('.')
  const inner = attributes[name!]
  return typeof inner === 'object' && inner !== null && !Array.isArray(inner)
    ? valueAt(inner as JsonObject, rest.join('.'))
    : undefined
}

/** A value that is a colour is shown as one. */
function Colour({ value }: { readonly value: JsonObject[string] | undefined }): JSX.Element | null {
  if (typeof value !== 'string' || !/^#[\da-f]{6}$/i.test(value)) return null
  return <span class="colour" style={{ background: value }} aria-hidden="true" />
}
