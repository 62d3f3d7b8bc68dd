import { useSignal } from '@preact/signals'
import type { ComponentType, JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { isUnreachable } from './api/client.ts'
import { Button, Page } from './parts/basics.tsx'
import { Icon } from './parts/icon.tsx'
import { KeyForm } from './parts/key-form.tsx'
import { Navigation } from './parts/navigation.tsx'
import { Toasts } from './parts/toast.tsx'
import { collections, currentCollection, loadCollections } from './state/collections.ts'
import { watchMetrics } from './state/metrics.ts'
import { collectionName, hrefOf, route, type ViewName } from './state/route.ts'
import { loadServiceConfig } from './state/service-config.ts'
import { key, keyNeeded } from './state/session.ts'

/** Each view is loaded from its own file when it is opened, so that the first page stays small. */
const views: Readonly<Record<ViewName, () => Promise<ComponentType>>> = {
  overview: async () => (await import('./views/overview.tsx')).Overview,
  search: async () => (await import('./views/search.tsx')).Search,
  points: async () => (await import('./views/points.tsx')).Points,
  map: async () => (await import('./views/map.tsx')).MapView,
  relevance: async () => (await import('./views/relevance.tsx')).RelevanceView,
  import: async () => (await import('./views/import.tsx')).Import,
  collections: async () => (await import('./views/collections.tsx')).Collections,
  snapshots: async () => (await import('./views/snapshots.tsx')).Snapshots,
  cluster: async () => (await import('./views/cluster.tsx')).Cluster,
  requests: async () => (await import('./views/requests.tsx')).Requests,
  settings: async () => (await import('./views/settings.tsx')).Settings,
}

const collectionsPeriodMs = 10_000
/** A shorter period while the server does not respond: the user may be waiting for its restart. */
const unreachablePeriodMs = 2000

export function App(): JSX.Element {
  if (keyNeeded.value !== 'no') return <KeyForm />
  // A new key remounts the console, so that everything is requested again.
  return <Console key={key.value} />
}

function Console(): JSX.Element {
  // Views wait until it is known what the service is. Otherwise they would render one version and then another.
  const isReady = useSignal(false)
  useEffect(() => {
    loadServiceConfig().then(() => {
      isReady.value = true
    })
    loadCollections()
    let timer = 0
    const poll = (): void => {
      const periodMs = isUnreachable.peek() ? unreachablePeriodMs : collectionsPeriodMs
      timer = window.setTimeout(async () => {
        if (document.visibilityState === 'visible') await loadCollections()
        poll()
      }, periodMs)
    }
    poll()
    const stop = watchMetrics()
    return () => {
      clearTimeout(timer)
      stop()
    }
  }, [])
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to content
      </button>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <Notices />
        {isReady.value && <View name={route.value.view} />}
      </main>
      <Toasts />
    </div>
  )
}

/** The notices that every view shows: the server does not respond, or the collection does not exist. */
function Notices(): JSX.Element {
  const known = collections.value
  const isMissing = known !== undefined && currentCollection.value === undefined
  const needsCollection = ['search', 'points', 'map', 'import'].includes(route.value.view)
  return (
    <div class="notices" role="status">
      {isUnreachable.value && (
        <p class="notice fault">
          <Icon name="warning" /> The server does not respond. Retrying every two seconds.
        </p>
      )}
      {isMissing && needsCollection && (
        <p class="notice">
          <span>
            There is no collection {collectionName.value}. See the{' '}
            <a href={hrefOf('collections')}>collections</a>.
          </span>
        </p>
      )}
    </div>
  )
}

/** Prefetches the views when the browser is idle. They then open immediately, even if the server does not respond. */
function fetchViews(): void {
  const fetchAll = (): void => {
    for (const [name, load] of Object.entries(views)) {
      // A failed prefetch is safe to ignore: opening the view loads it again and reports the error.
      if (name !== 'map') load().catch(() => undefined)
    }
  }
  if ('requestIdleCallback' in globalThis) requestIdleCallback(fetchAll)
  else setTimeout(fetchAll, 2000)
}

function View({ name }: { readonly name: ViewName }): JSX.Element {
  const loaded = useSignal<{ readonly name: ViewName; readonly view: ComponentType } | undefined>(undefined)
  const fault = useSignal(false)
  const isFirst = useRef(true)
  useEffect(() => {
    let isCurrent = true
    views[name]().then(
      (view) => {
        if (!isCurrent) return
        loaded.value = { name, view }
        fault.value = false
      },
      () => {
        if (isCurrent) fault.value = true
      },
    )
    return () => {
      isCurrent = false
    }
  }, [name])
  useEffect(() => {
    if (loaded.value === undefined) return
    const heading = document.querySelector<HTMLElement>('main h1')
    document.title = `${heading?.textContent ?? 'Console'} - Vicinal`
    // Moving the focus announces a new page to screen readers. The first page needs no announcement.
    if (!isFirst.current) heading?.focus({ preventScroll: true })
    if (isFirst.current) fetchViews()
    isFirst.current = false
    scrollTo(0, 0)
  }, [loaded.value])
  if (fault.value) {
    return (
      <Page title="View not loaded">
        <p class="notice fault">
          This view could not be loaded. The server does not respond, or it was updated.
        </p>
        <div>
          <Button kind="primary" onClick={() => location.reload()}>
            Reload
          </Button>
        </div>
      </Page>
    )
  }
  if (loaded.value === undefined) return <div class="page" aria-busy="true" />
  const { view: Current, name: shown } = loaded.value
  return <Current key={`${shown} ${collectionName.value}`} />
}
