import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'

/**
 * The view and its parameters are in the hash: `#/search?c=glosses&id=…`. Links to them work on any static path, and
 * queries do not get into logs of servers and proxies, because browsers do not send the hash.
 */

export const viewNames = [
  'overview',
  'search',
  'points',
  'map',
  'import',
  'collections',
  'snapshots',
  'cluster',
  'settings',
] as const
export type ViewName = (typeof viewNames)[number]

const hash: Signal<string> = signal(location.hash)
addEventListener('hashchange', () => {
  hash.value = location.hash
})

export interface Route {
  readonly view: ViewName
  readonly params: URLSearchParams
}

export const route: ReadonlySignal<Route> = computed(() => {
  const [path = '', query = ''] = hash.value.replace(/^#\/?/, '').split(/\?(.*)/s)
  const view = viewNames.find((name) => name === path) ?? 'overview'
  return { view, params: new URLSearchParams(query) }
})

export type Params = Readonly<Record<string, string | undefined>>

/** The collection that the views work on; kept when the view changes. */
export const collectionName: ReadonlySignal<string> = computed(() => route.value.params.get('c') ?? 'default')

/** The address of a view; the collection stays, unless the parameters name another one. */
export function hrefOf(view: ViewName, params: Params = {}): string {
  const all: Params = { c: collectionName.value === 'default' ? undefined : collectionName.value, ...params }
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(all)) {
    if (value !== undefined && value !== '' && !(name === 'c' && value === 'default')) query.set(name, value)
  }
  const text = query.toString()
  return `#/${view}${text === '' ? '' : `?${text}`}`
}

export function navigate(view: ViewName, params: Params = {}): void {
  location.hash = hrefOf(view, params)
}

/** Keeps the address up to date with what is shown, without a new step in the history. */
export function replaceParams(params: Params): void {
  const { view, params: current } = route.peek()
  const href = hrefOf(view, { ...Object.fromEntries(current), ...params })
  if (href === location.hash) return
  history.replaceState(null, '', href)
  hash.value = href
}
