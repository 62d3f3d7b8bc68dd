import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { ask, collectionPath, type Method } from '../api/client.ts'
import { formatBytes, formatMs } from '../lib/format.ts'
import { Button, Code, Empty, Fault, Field, Page, Panel } from '../parts/basics.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { JsonEditor } from '../parts/json-editor.tsx'
import { useRun } from '../parts/use-run.ts'
import { collectionName, replaceParams, route } from '../state/route.ts'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

interface Request {
  readonly method: Method
  readonly path: string
  readonly body: string
}

interface Answer {
  readonly status: string
  readonly isError: boolean
  readonly tookMs: number
  readonly type: string
  readonly text: string
  readonly note: string
}

/** Sends any request to the API and shows the answer. The address holds the request, which is sent only by the button. */
export function Requests(): JSX.Element {
  const { params } = route.value
  const request: Request = {
    method: methods.find((each) => each === params.get('method')) ?? 'GET',
    path: params.get('path') ?? '',
    body: params.get('body') ?? '',
  }
  const answer = useSignal<Answer | undefined>(undefined)
  const asked = useSignal(false)
  const {
    run: send,
    stop,
    isRunning,
    fault,
  } = useRun(async (signal) => {
    answer.value = await answerTo(request, signal)
  })
  return (
    <Page
      title="Requests"
      lead={
        <>
          Any request of the{' '}
          <a href="../docs" target="_blank" rel="noreferrer">
            API
          </a>
          , with the key of this tab
        </>
      }
    >
      <div class="two-columns">
        <Panel class="form">
          <RequestForm
            request={request}
            isRunning={isRunning}
            onStop={stop}
            onSend={() => {
              if (isDestructive(request)) asked.value = true
              else send()
            }}
          />
        </Panel>
        <Panel title="Answer">
          <Fault text={fault} />
          {answer.value === undefined ? (
            <Empty icon="requests" title="No request has been sent yet." />
          ) : (
            <Shown answer={answer.value} />
          )}
        </Panel>
      </div>
      {asked.value && (
        <FormDialog
          title={`Send ${request.method} ${request.path}?`}
          submit="Send"
          kind="danger"
          onSubmit={async () => {
            // Its answer or its error is shown by the page.
            send()
          }}
          onClose={() => {
            asked.value = false
          }}
        >
          <p>This request may change or delete what is stored. That cannot be undone.</p>
        </FormDialog>
      )}
    </Page>
  )
}

function RequestForm(props: {
  readonly request: Request
  readonly isRunning: boolean
  readonly onStop: () => void
  readonly onSend: () => void
}): JSX.Element {
  const { request } = props
  const examples = examplesFor(collectionPath(collectionName.value))
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        props.onSend()
      }}
    >
      <Field label="Example">
        {({ id }) => (
          <select
            id={id}
            value=""
            onChange={(event) => {
              const chosen = examples.find(([name]) => name === event.currentTarget.value)?.[1]
              if (chosen === undefined) return
              event.currentTarget.value = ''
              replaceParams({ ...chosen, body: chosen.body === '' ? undefined : chosen.body })
            }}
          >
            <option value="">Choose one to fill in</option>
            {examples.map(([name]) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <div class="request-line">
        <Field label="Method">
          {({ id }) => (
            <select
              id={id}
              value={request.method}
              onChange={(event) => replaceParams({ method: event.currentTarget.value })}
            >
              {methods.map((method) => (
                <option key={method} value={method}>
                  {method}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Path">
          {({ id }) => (
            <input
              id={id}
              class="mono"
              required
              placeholder="/collections"
              spellcheck={false}
              autocomplete="off"
              value={request.path}
              onInput={(event) => replaceParams({ path: event.currentTarget.value })}
            />
          )}
        </Field>
      </div>
      {request.method !== 'GET' && (
        <div class="field">
          <p class="field-label">Body</p>
          <JsonEditor
            label="Body as JSON"
            text={request.body}
            onChange={(body) => replaceParams({ body: body === '' ? undefined : body })}
          />
        </div>
      )}
      <div class="actions">
        <Button type="submit" kind="primary" disabled={props.isRunning}>
          Send
        </Button>
        {props.isRunning && <Button onClick={props.onStop}>Stop</Button>}
      </div>
    </form>
  )
}

function Shown({ answer }: { readonly answer: Answer }): JSX.Element {
  const { status, isError, tookMs, type, text, note } = answer
  return (
    <>
      <p class="answer-head" role="status">
        <strong class={isError ? 'bad-text' : ''}>{status}</strong>{' '}
        <span class="muted">
          in {formatMs(tookMs)}
          {type === '' ? '' : `, ${type}`}
        </span>
      </p>
      {text !== '' && <Code text={text} label="the answer" />}
      {note !== '' && <p class="hint below">{note}</p>}
    </>
  )
}

/** Longer answers are cut off: a page cannot show them, and some never end. */
const shownBytes = 1024 * 1024

async function answerTo({ method, path, body }: Request, signal: AbortSignal): Promise<Answer> {
  const started = performance.now()
  const response = await ask(method, path.replace(/^\/+/, ''), {
    signal,
    ...(method === 'GET' || body.trim() === '' ? {} : { body }),
  })
  const type = response.headers.get('content-type')?.split(';')[0] ?? ''
  const read = isText(type) ? await firstBytes(response) : { text: '', isWhole: true }
  if (!isText(type)) await response.body?.cancel()
  const ignored = response.headers.get('vicinal-ignored-fields')
  return {
    status: `${response.status} ${response.statusText}`.trim(),
    isError: !response.ok,
    tookMs: performance.now() - started,
    type,
    text: type === 'application/json' && read.isWhole ? formatted(read.text) : read.text,
    note: [
      ...(read.isWhole ? [] : [`Only the first ${formatBytes(shownBytes)} are shown.`]),
      ...(isText(type) ? [] : ['This is not text, so it is not shown.']),
      ...(ignored === null ? [] : [`Ignored fields: ${ignored}`]),
    ].join(' '),
  }
}

function isText(type: string): boolean {
  return type === '' || type.startsWith('text/') || /json|yaml|javascript/.test(type)
}

async function firstBytes(response: Response): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  let text = ''
  for (let bytes = 0; reader !== undefined; ) {
    const { done, value } = await reader.read()
    if (done) break
    text += decoder.decode(value, { stream: true })
    bytes += value.length
    if (bytes < shownBytes) continue
    await reader.cancel()
    return { text, isWhole: false }
  }
  return { text: text + decoder.decode(), isWhole: true }
}

function formatted(text: string): string {
  // JSON.parse would round such an integer.
  if (/\d{16}/.test(text)) return text
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    // Whatever the server calls JSON is shown as it is.
    return text
  }
}

/** Whether a request may change or delete what is stored. Inserts, reads and dry runs do not. */
function isDestructive({ method, path, body }: Request): boolean {
  if (method === 'GET') return false
  const isHarmless =
    method === 'POST' && /\/(?:points|batch|search|list|count|facets|snapshots)\/?$/.test(path)
  return !isHarmless && !/"dry_run"\s*:\s*true/.test(body)
}

function examplesFor(collection: string): readonly (readonly [name: string, Request])[] {
  const points = `/${collection}/points`
  const post = (path: string, body: object): Request => ({
    method: 'POST',
    path: `${points}${path}`,
    body: JSON.stringify(body, null, 2),
  })
  return [
    [
      'Search',
      post('/search', {
        vector: [0.1, 0.2, 0.3],
        similarity: 'Cosine',
        limit: 5,
        filter: {},
        include: { distance: true, payload: true },
        profile: true,
      }),
    ],
    ['List points', post('/list', { limit: 10, filter: {}, include: { payload: true } })],
    ['Count points', post('/count', { filter: {} })],
    ['Count the values of attributes', post('/facets', { paths: ['attribute'], limit: 10 })],
    [
      'Insert a point',
      post('', {
        vector: [0.1, 0.2, 0.3],
        payload: { content_type: 'Text', content: 'a text', attributes: {} },
      }),
    ],
    ['Delete points, dry run', post('/delete', { filter: { attribute: 'value' }, dry_run: true })],
    ['State of the index', { method: 'GET', path: `/${collection}/stats`, body: '' }],
    ['Slow requests', { method: 'GET', path: '/slow-queries', body: '' }],
    ['Metrics', { method: 'GET', path: '/metrics', body: '' }],
  ]
}
