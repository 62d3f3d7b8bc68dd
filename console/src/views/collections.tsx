import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { call, collectionPath, send } from '../api/client.ts'
import type { CollectionInfo } from '../api/types.ts'
import { formatCount, plural } from '../lib/format.ts'
import { Button, Fault, Field, Page, Panel } from '../parts/basics.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { report } from '../parts/toast.tsx'
import { collections, collectionsFault, loadCollections, uncounted } from '../state/collections.ts'
import { collectionName, hrefOf, navigate } from '../state/route.ts'

type Open =
  | { readonly kind: 'create' }
  | { readonly kind: 'alias'; readonly of: CollectionInfo }
  | { readonly kind: 'words'; readonly of: CollectionInfo }
  | { readonly kind: 'remove-alias'; readonly alias: string; readonly of: CollectionInfo }
  | { readonly kind: 'drop'; readonly of: CollectionInfo }

export function Collections(): JSX.Element {
  const open = useSignal<Open | undefined>(undefined)
  const typed = useSignal('')
  const close = (): void => {
    open.value = undefined
  }
  const create = (
    <Button
      kind="primary"
      icon="plus"
      onClick={() => {
        open.value = { kind: 'create' }
      }}
    >
      Create collection
    </Button>
  )
  return (
    <Page
      title="Collections"
      lead="Each collection has its own points, dimension and graphs."
      actions={create}
    >
      <Fault text={collectionsFault.value ?? uncounted.value} />
      {(collections.value?.length ?? 0) > filteredFrom && (
        <input
          type="search"
          class="list-filter"
          aria-label="Find a collection"
          placeholder="Find a collection or an alias"
          spellcheck={false}
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value
          }}
        />
      )}
      {collections.value !== undefined && (
        <Panel class="flush">
          <div class="table-wrap">
            <table class="stacking collection-list">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col" class="right">
                    Points
                  </th>
                  <th scope="col" class="right">
                    Dimension
                  </th>
                  <th scope="col">Graph</th>
                  <th scope="col">Aliases</th>
                  <th scope="col">
                    <span class="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {collections.value
                  .filter((each) => isNamed(each, typed.value))
                  .map((each) => (
                    <CollectionRow
                      key={each.name}
                      collection={each}
                      onOpen={(chosen) => {
                        open.value = chosen
                      }}
                    />
                  ))}
              </tbody>
            </table>
          </div>
        </Panel>
      )}
      {open.value?.kind === 'create' && <CreateDialog onClose={close} />}
      {open.value?.kind === 'alias' && <AliasDialog collection={open.value.of} onClose={close} />}
      {open.value?.kind === 'words' && <WordsDialog collection={open.value.of} onClose={close} />}
      {open.value?.kind === 'remove-alias' && <RemoveAliasDialog {...open.value} onClose={close} />}
      {open.value?.kind === 'drop' && <DropDialog collection={open.value.of} onClose={close} />}
    </Page>
  )
}

/** Shorter lists need no search field. */
const filteredFrom = 8

function isNamed({ name, aliases }: CollectionInfo, text: string): boolean {
  return [name, ...aliases].some((each) => each.includes(text.trim().toLowerCase()))
}

function CollectionRow(props: {
  readonly collection: CollectionInfo
  readonly onOpen: (open: Open) => void
}): JSX.Element {
  const { name, points, dimension, hnsw, aliases } = props.collection
  return (
    <tr>
      <td data-label="Name">
        <a href={hrefOf('search', { c: name })}>{name}</a>
      </td>
      <td class="right" data-label="Points">
        {formatCount(points)}
      </td>
      <td class="right" data-label="Dimension">
        {dimension === undefined ? (
          <span class="muted">set by the first insert</span>
        ) : (
          formatCount(dimension)
        )}
      </td>
      <td data-label="Graph" class="muted nowrap">
        m {hnsw.m}, ef {hnsw.ef_construction}
      </td>
      <td data-label="Aliases">
        <span class="tags">
          {aliases.map((alias) => (
            <span key={alias} class="chip">
              {alias}
              <button
                type="button"
                aria-label={`Remove alias ${alias}`}
                onClick={() => props.onOpen({ kind: 'remove-alias', alias, of: props.collection })}
              >
                ×
              </button>
            </span>
          ))}
        </span>
      </td>
      <td>
        <span class="row-actions">
          <Button kind="quiet" onClick={() => props.onOpen({ kind: 'alias', of: props.collection })}>
            Add alias
          </Button>
          <Button kind="quiet" onClick={() => props.onOpen({ kind: 'words', of: props.collection })}>
            Words
          </Button>
          {name !== 'default' && (
            <Button
              kind="quiet"
              icon="trash"
              label={`Delete ${name}`}
              onClick={() => props.onOpen({ kind: 'drop', of: props.collection })}
            />
          )}
        </span>
      </td>
    </tr>
  )
}

const namePattern = '[a-z0-9][a-z0-9_\\-]{0,62}'
const nameHint = 'Lower-case letters, digits, _ and -; at most 63.'

function CreateDialog({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const name = useSignal('')
  const dimension = useSignal('')
  const m = useSignal('')
  const ef = useSignal('')
  const create = async (): Promise<void> => {
    const hnsw = { ...numberField('m', m.value), ...numberField('ef_construction', ef.value) }
    const body = {
      ...numberField('dimension', dimension.value),
      ...(Object.keys(hnsw).length === 0 ? {} : { hnsw }),
    }
    const { status } = await send('PUT', collectionPath(name.value), { body })
    // The request may be repeated, so an equal collection is no error to the server; here, it is not what was asked.
    if (status !== 201) throw new Error(`The collection ${name.value} already exists. Nothing was changed.`)
    await loadCollections()
    report(`Created ${name.value}.`)
  }
  return (
    <FormDialog title="Create collection" submit="Create" onSubmit={create} onClose={onClose}>
      <Field label="Name" hint={nameHint}>
        {({ id, describedBy }) => <NameInput id={id} describedBy={describedBy} signal={name} />}
      </Field>
      <Field label="Dimension" hint="Numbers per vector. If empty, the first insert sets it.">
        {({ id, describedBy }) => (
          <NumberInput id={id} describedBy={describedBy} min={1} max={65535} signal={dimension} />
        )}
      </Field>
      <details>
        <summary>Graph</summary>
        <div class="fields below">
          <Field label="m" hint="Neighbours per point, 4 to 64.">
            {({ id, describedBy }) => (
              <NumberInput id={id} describedBy={describedBy} min={4} max={64} signal={m} />
            )}
          </Field>
          <Field label="ef_construction" hint="Search breadth while building, 8 to 2000.">
            {({ id, describedBy }) => (
              <NumberInput id={id} describedBy={describedBy} min={8} max={2000} signal={ef} />
            )}
          </Field>
        </div>
      </details>
    </FormDialog>
  )
}

/** An input for the name of a collection or an alias. */
function NameInput(props: {
  readonly id: string
  readonly describedBy: string
  readonly signal: { value: string }
}): JSX.Element {
  return (
    <input
      id={props.id}
      aria-describedby={props.describedBy}
      required
      pattern={namePattern}
      autocomplete="off"
      spellcheck={false}
      value={props.signal.value}
      onInput={(event) => {
        props.signal.value = event.currentTarget.value
      }}
    />
  )
}

function NumberInput(props: {
  readonly id: string
  readonly describedBy: string
  readonly min: number
  readonly max: number
  readonly signal: { value: string }
}): JSX.Element {
  return (
    <input
      id={props.id}
      aria-describedby={props.describedBy}
      type="number"
      min={props.min}
      max={props.max}
      value={props.signal.value}
      onInput={(event) => {
        props.signal.value = event.currentTarget.value
      }}
    />
  )
}

function numberField(name: string, text: string): Readonly<Record<string, number>> {
  return text === '' ? {} : { [name]: Number(text) }
}

function AliasDialog(props: {
  readonly collection: CollectionInfo
  readonly onClose: () => void
}): JSX.Element {
  const alias = useSignal('')
  const { name } = props.collection
  const owner = collections.value?.find(({ aliases }) => aliases.includes(alias.value))
  const set = async (): Promise<void> => {
    await call('PUT', 'aliases', { body: { set: { [alias.value]: name } } })
    await loadCollections()
    report(`${alias.value} now points to ${name}.`)
  }
  const hint =
    owner === undefined ? nameHint : `Moves the alias from ${owner.name} to ${name} in one atomic step.`
  return (
    <FormDialog title={`Add an alias for ${name}`} submit="Set alias" onSubmit={set} onClose={props.onClose}>
      <Field label="Alias" hint={hint}>
        {({ id, describedBy }) => <NameInput id={id} describedBy={describedBy} signal={alias} />}
      </Field>
    </FormDialog>
  )
}

/** Declares the texts that can be searched by words. Parameters that it does not show stay as they are. */
function WordsDialog(props: {
  readonly collection: CollectionInfo
  readonly onClose: () => void
}): JSX.Element {
  const { name, words } = props.collection
  const paths = useSignal(pathsText(words?.paths ?? {}))
  const language = useSignal(words?.language ?? 'auto')
  const declare = async (): Promise<void> => {
    const weights = pathsIn(paths.value)
    const hasWords = Object.keys(weights).length > 0
    const declared = hasWords ? { ...words, language: language.value, paths: weights } : null
    await call('PUT', collectionPath(name), { body: { words: declared } })
    await loadCollections()
    report(hasWords ? `${name} can be searched by words.` : `${name} has no words.`)
  }
  return (
    <FormDialog title={`Words of ${name}`} submit="Declare words" onSubmit={declare} onClose={props.onClose}>
      <Field label="Paths" hint="content, or attributes, with weights: content, title=3. If empty, none.">
        {({ id, describedBy }) => (
          <input
            id={id}
            class="mono"
            aria-describedby={describedBy}
            autocomplete="off"
            spellcheck={false}
            value={paths.value}
            onInput={(event) => {
              paths.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
      <Field label="Language" hint="auto: that of each text; none: no stems; or one like english.">
        {({ id, describedBy }) => (
          <input
            id={id}
            aria-describedby={describedBy}
            required
            autocomplete="off"
            spellcheck={false}
            value={language.value}
            onInput={(event) => {
              language.value = event.currentTarget.value.trim()
            }}
          />
        )}
      </Field>
    </FormDialog>
  )
}

function pathsText(paths: Readonly<Record<string, number>>): string {
  return Object.entries(paths)
    .map(([path, weight]) => (weight === 1 ? path : `${path}=${weight}`))
    .join(', ')
}

/** Reads paths with weights, which are 1 if they are not given. */
function pathsIn(text: string): Readonly<Record<string, number>> {
  const parts = text.split(',').filter((part) => part.trim() !== '')
  const weights = parts.map((part) => {
    const [, path = '', weight = '1'] = /^(.*?)(?:=([^=]*))?$/.exec(part.trim())!
    if (!(Number(weight) > 0))
      throw new Error(`The weight of ${path} must be a number above 0, not ${weight}.`)
    return [path.trim(), Number(weight)] as const
  })
  return Object.fromEntries(weights)
}

function RemoveAliasDialog(props: {
  readonly alias: string
  readonly of: CollectionInfo
  readonly onClose: () => void
}): JSX.Element {
  const remove = async (): Promise<void> => {
    await call('PUT', 'aliases', { body: { remove: [props.alias] } })
    await loadCollections()
    report(`Removed the alias ${props.alias}.`)
  }
  return (
    <FormDialog
      title={`Remove the alias ${props.alias}?`}
      submit="Remove alias"
      kind="danger"
      onSubmit={remove}
      onClose={props.onClose}
    >
      <p>
        Requests that use the name <code>{props.alias}</code> will fail with 404. The collection{' '}
        <code>{props.of.name}</code> keeps its points.
      </p>
    </FormDialog>
  )
}

function DropDialog(props: {
  readonly collection: CollectionInfo
  readonly onClose: () => void
}): JSX.Element {
  const typed = useSignal('')
  const { name, points, aliases } = props.collection
  const drop = async (): Promise<void> => {
    await call('DELETE', collectionPath(name))
    if (collectionName.value === name) navigate('collections', { c: 'default' })
    await loadCollections()
    report(`Deleted ${name}.`)
  }
  return (
    <FormDialog
      title={`Delete ${name}?`}
      submit="Delete collection"
      kind="danger"
      canSubmit={typed.value === name}
      onSubmit={drop}
      onClose={props.onClose}
    >
      <p>
        This deletes the collection with {plural(points, 'point')}
        {aliases.length > 0 &&
          ` and ${aliases.length === 1 ? 'its alias' : 'its aliases'} ${aliases.join(', ')}`}
        . Requests that name it will fail with 404. You can restore it only from a{' '}
        <a href={hrefOf('snapshots')} onClick={props.onClose}>
          snapshot
        </a>
        .
      </p>
      <Field label={`Type ${name} to confirm`}>
        {({ id }) => (
          <input
            id={id}
            autocomplete="off"
            spellcheck={false}
            value={typed.value}
            onInput={(event) => {
              typed.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
    </FormDialog>
  )
}
