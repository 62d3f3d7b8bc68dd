import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { call, isAbort, messageOf } from '../api/client.ts'
import type { Setting } from '../api/types.ts'
import { formatBytes, plural } from '../lib/format.ts'
import { Fault, Panel, Segments } from '../parts/basics.tsx'

type Shown = 'all' | 'changed'

const shownOptions: readonly (readonly [Shown, string])[] = [
  ['all', 'All'],
  ['changed', 'Changed'],
]

/** The settings in force, each with its meaning and the source of its value. */
export function SettingsPanel(): JSX.Element {
  const settings = useSignal<readonly Setting[] | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const searched = useSignal('')
  const shown = useSignal<Shown>('all')
  useEffect(() => {
    const stopped = new AbortController()
    call<{ readonly settings: readonly Setting[] }>('GET', 'settings', { signal: stopped.signal }).then(
      (answer) => {
        settings.value = answer.settings
      },
      (error) => {
        if (!isAbort(error)) fault.value = messageOf(error)
      },
    )
    return () => stopped.abort()
  }, [])
  const found = (settings.value ?? []).filter((each) => matches(each, searched.value, shown.value))
  const groups = [...new Set(found.map(({ group }) => group))]
  return (
    <Panel
      title="Settings in force"
      actions={
        <Segments
          label="Which settings"
          options={shownOptions}
          value={shown.value}
          onChange={(chosen) => {
            shown.value = chosen
          }}
        />
      }
    >
      <Fault text={fault.value} />
      <input
        type="search"
        aria-label="Find a setting"
        placeholder="Find a setting"
        value={searched.value}
        onInput={(event) => {
          searched.value = event.currentTarget.value
        }}
      />
      <p class="hint" role="status">
        {settings.value !== undefined &&
          `${plural(found.length, 'setting')}. The server reads them at startup. Secrets are never shown.`}
      </p>
      {groups.map((group) => (
        <section key={group} class="setting-group">
          <h3 class="sub-title">{group}</h3>
          <dl class="settings">
            {found
              .filter((each) => each.group === group)
              .map((each) => (
                <SettingRow key={each.name} setting={each} />
              ))}
          </dl>
        </section>
      ))}
    </Panel>
  )
}

function matches(setting: Setting, searched: string, shown: Shown): boolean {
  const { name, flag, doc, source } = setting
  if (shown === 'changed' && source === 'default') return false
  const wanted = searched.trim().toLowerCase()
  return [name, `--${flag}`, doc].some((text) => text.toLowerCase().includes(wanted))
}

function SettingRow({ setting }: { readonly setting: Setting }): JSX.Element {
  const { name, flag, source, doc } = setting
  return (
    <div>
      <dt>
        <code>{name}</code>
        <span class={`tag${source === 'default' ? '' : ' matched'}`}>{sourceText(source)}</span>
      </dt>
      <dd>
        <div class="setting-value">
          <code>{valueText(setting)}</code>
          {source !== 'default' && <span class="muted">default: {setting.default}</span>}
        </div>
        <p class="muted">
          {doc.replaceAll('`', '')} <span class="nowrap">--{flag}</span>
        </p>
      </dd>
    </div>
  )
}

function sourceText(source: Setting['source']): string {
  if (source === null) return 'set by the program'
  return source === 'flag' ? 'command line' : source
}

function valueText({ name, value, secret, default: byDefault }: Setting): string {
  if (value === null || value === '') return byDefault
  if (secret) return 'set, hidden'
  const isSize = typeof value === 'number' && name.endsWith('_BYTES') && value >= 1024
  return isSize ? `${value} (${formatBytes(value)})` : String(value)
}
