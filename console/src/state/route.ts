import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'

/**
 * The hash of the address holds the view and its parameters: `#/search?c=glosses&id=…`. Such links work at any path.
 * Queries do not get into the logs of servers and proxies, because browsers do not send the hash.
 */

const viewNames = [
  'overview',
  'search',
  'points',
  'map',
  'relevance',
  'import',
  'collections',
  'snapshots',
  'cluster',
  'settings',
  'requests',
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

/** The name or alias of the selected collection. It is kept when the view changes. */
export const collectionName: ReadonlySignal<string> = computed(() => route.value.params.get('c') ?? 'default')

/** The address of a view. It keeps the current collection unless the parameters name another. */
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

/** Updates parameters in the address without a new history entry. */
export function replaceParams(params: Params): void {
  const { view, params: current } = route.peek()
  const href = hrefOf(view, { ...Object.fromEntries(current), ...params })
  if (href === location.hash) return
  history.replaceState(null, '', href)
  hash.value = href
}
