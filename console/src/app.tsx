import { useSignal } from '@preact/signals'
import type { ComponentType, JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { KeyForm } from './parts/key-form.tsx'
import { Navigation } from './parts/navigation.tsx'
import { Toasts } from './parts/toast.tsx'
import { detectCapabilities } from './state/capabilities.ts'
import { loadCollections } from './state/collections.ts'
import { watchMetrics } from './state/metrics.ts'
import { collectionName, route, type ViewName } from './state/route.ts'
import { loadServiceConfig } from './state/service-config.ts'
import { key, keyNeeded } from './state/session.ts'

/** Each view is a file of its own, loaded when it is opened: the first page stays small. */
const views: Readonly<Record<ViewName, () => Promise<ComponentType>>> = {
  overview: async () => (await import('./views/overview.tsx')).Overview,
  search: async () => (await import('./views/search.tsx')).Search,
  points: async () => (await import('./views/points.tsx')).Points,
  map: async () => (await import('./views/map.tsx')).MapView,
  import: async () => (await import('./views/import.tsx')).Import,
  collections: async () => (await import('./views/collections.tsx')).Collections,
  snapshots: async () => (await import('./views/snapshots.tsx')).Snapshots,
  settings: async () => (await import('./views/settings.tsx')).Settings,
}

const collectionsPeriodMs = 10_000

export function App(): JSX.Element {
  if (keyNeeded.value !== 'no') return <KeyForm />
  // Everything is asked for again with another key.
  return <Console key={key.value} />
}

function Console(): JSX.Element {
  // A view that does not know what the server can do would show one thing and then another.
  const isReady = useSignal(false)
  useEffect(() => {
    detectCapabilities().then(() => {
      isReady.value = true
    })
    loadServiceConfig()
    loadCollections()
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') loadCollections()
    }, collectionsPeriodMs)
    const stop = watchMetrics()
    return () => {
      clearInterval(timer)
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
        {isReady.value && <View name={route.value.view} />}
      </main>
      <Toasts />
    </div>
  )
}

function View({ name }: { readonly name: ViewName }): JSX.Element {
  const loaded = useSignal<{ readonly name: ViewName; readonly view: ComponentType } | undefined>(undefined)
  const fault = useSignal(false)
  const isFirst = useRef(true)
  useEffect(() => {
    let isCurrent = true
    views[name]().then(
      (view) => {
        if (isCurrent) loaded.value = { name, view }
      },
      () => {
        fault.value = true
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
    // Screen readers learn from the focus that there is another page; not when the first one opens.
    if (!isFirst.current) heading?.focus({ preventScroll: true })
    isFirst.current = false
    scrollTo(0, 0)
  }, [loaded.value])
  if (fault.value) {
    return (
      <p class="notice fault">This page could not be loaded. The server may have been updated: reload.</p>
    )
  }
  if (loaded.value === undefined) return <div class="page" aria-busy="true" />
  const { view: Current, name: shown } = loaded.value
  return <Current key={`${shown} ${collectionName.value}`} />
}
