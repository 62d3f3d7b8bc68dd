import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useId } from 'preact/hooks'
import { formatCompact } from '../lib/format.ts'
import { collections } from '../state/collections.ts'
import { collectionName, hrefOf, navigate, route, type ViewName } from '../state/route.ts'
import { serviceConfig } from '../state/service-config.ts'
import { type Theme, theme, themes } from '../state/theme.ts'
import { Icon, type IconName } from './icon.tsx'

interface Entry {
  readonly view: ViewName
  readonly text: string
}

const dataViews: readonly Entry[] = [
  { view: 'search', text: 'Search' },
  { view: 'points', text: 'Points' },
  { view: 'map', text: 'Map' },
  { view: 'relevance', text: 'Relevance' },
  { view: 'import', text: 'Import' },
]

const serverViews: readonly Entry[] = [
  { view: 'collections', text: 'Collections' },
  { view: 'snapshots', text: 'Snapshots' },
  { view: 'cluster', text: 'Cluster' },
  { view: 'settings', text: 'Settings' },
  { view: 'requests', text: 'Requests' },
]

function isServed({ view }: Entry): boolean {
  return view !== 'cluster' || serviceConfig.value.isCluster
}

export function Brand(): JSX.Element {
  return (
    <span class="brand">
      <img src="./icon.svg" alt="" width="26" height="26" />
      Vicinal
    </span>
  )
}

export function Navigation(): JSX.Element {
  const open = useSignal(false)
  const id = useId()
  const { view, params } = route.value
  // On a narrow screen the menu covers the page, so it closes when a link is followed.
  useEffect(() => {
    open.value = false
  }, [view, params])
  return (
    <header class="side-bar">
      <div class="side-head">
        <a href={hrefOf('overview')} aria-label="Vicinal, overview">
          <Brand />
        </a>
        <button
          type="button"
          class="menu-button"
          aria-expanded={open.value}
          aria-controls={id}
          onClick={() => {
            open.value = !open.value
          }}
        >
          <Icon name={open.value ? 'close' : 'menu'} />
          <span class="visually-hidden">Menu</span>
        </button>
      </div>
      <nav id={id} class={open.value ? 'open' : ''} aria-label="Console">
        <ul>
          <NavigationLink view="overview" text="Overview" />
        </ul>
        <CollectionPicker />
        <ul aria-label="Collection">
          {dataViews.map((entry) => (
            <NavigationLink key={entry.view} {...entry} />
          ))}
        </ul>
        <p class="nav-title" aria-hidden="true">
          Server
        </p>
        <ul aria-label="Server">
          {serverViews.filter(isServed).map((entry) => (
            <NavigationLink key={entry.view} {...entry} />
          ))}
          <li>
            <a class="nav-link" href="../docs" target="_blank" rel="noreferrer">
              <Icon name="api" /> API <span class="visually-hidden">(opens in a new tab)</span>
              <Icon name="external" size={13} />
            </a>
          </li>
        </ul>
        <ThemePicker />
      </nav>
    </header>
  )
}

function NavigationLink({ view, text }: Entry): JSX.Element {
  const isCurrent = route.value.view === view
  return (
    <li>
      <a class="nav-link" href={hrefOf(view)} aria-current={isCurrent ? 'page' : undefined}>
        <Icon name={view as IconName} /> {text}
      </a>
    </li>
  )
}

function CollectionPicker(): JSX.Element {
  const id = useId()
  const known = collections.value ?? []
  const name = collectionName.value
  const names = known.flatMap((each) => [
    [each.name, `${each.name} (${formatCompact(each.points)})`] as const,
    ...each.aliases.map((alias) => [alias, `${alias} → ${each.name}`] as const),
  ])
  const isKnown = names.some(([each]) => each === name)
  const choose = (chosen: string): void => {
    const { view } = route.peek()
    navigate(dataViews.some((entry) => entry.view === view) ? view : 'search', { c: chosen })
  }
  return (
    <div class="collection-picker">
      <label for={id}>Collection</label>
      <select id={id} value={name} onChange={(event) => choose(event.currentTarget.value)}>
        {!isKnown && <option value={name}>{name}</option>}
        {names.map(([value, text]) => (
          <option key={value} value={value} selected={value === name}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

const themeTexts: Readonly<Record<Theme, string>> = { system: 'Auto', light: 'Light', dark: 'Dark' }

function ThemePicker(): JSX.Element {
  const id = useId()
  return (
    <div class="theme-picker">
      <label for={id}>Theme</label>
      <select
        id={id}
        value={theme.value}
        onChange={(event) => {
          theme.value = event.currentTarget.value as Theme
        }}
      >
        {themes.map((each) => (
          <option key={each} value={each}>
            {themeTexts[each]}
          </option>
        ))}
      </select>
    </div>
  )
}
