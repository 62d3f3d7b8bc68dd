import type { ComponentChildren, JSX } from 'preact'
import { apiRoot } from '../api/client.ts'
import { formatMoment } from '../lib/format.ts'
import { type Samples, single } from '../lib/prometheus.ts'
import { Button, Page, Panel, Segments } from '../parts/basics.tsx'
import { latest } from '../state/metrics.ts'
import { key, removeKey } from '../state/session.ts'
import { type Theme, theme } from '../state/theme.ts'
import { SettingsPanel } from './settings-table.tsx'

const themeOptions: readonly (readonly [Theme, string])[] = [
  ['system', 'Same as system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

export function Settings(): JSX.Element {
  return (
    <Page title="Settings">
      <Panel title="Server">
        <ServerFacts samples={latest.value} />
      </Panel>
      <Panel title="This browser">
        <dl class="rows">
          <Row name="Theme">
            <Segments
              label="Theme"
              options={themeOptions}
              value={theme.value}
              onChange={(chosen) => {
                theme.value = chosen
              }}
            />
          </Row>
          <Row name="API key">
            {key.value === undefined ? (
              <span class="muted">None: anyone who can reach the server can use it.</span>
            ) : (
              <span class="actions">
                <span class="muted">Kept in this tab only.</span>
                <Button onClick={removeKey}>Remove key</Button>
              </span>
            )}
          </Row>
        </dl>
      </Panel>
      <SettingsPanel />
    </Page>
  )
}

function ServerFacts({ samples }: { readonly samples: Samples | undefined }): JSX.Element {
  const info = samples?.get('vicinal_build_info')?.[0]?.labels ?? {}
  const startS = samples === undefined ? undefined : single(samples, 'process_start_time_seconds')
  return (
    <dl class="rows">
      <Row name="Address">
        <code>{apiRoot.href.replace(/\/$/, '')}</code>
      </Row>
      <Row name="Version">{info.version}</Row>
      <Row name="Node">{info.node}</Row>
      <Row name="Platform">
        {info.platform} {info.arch}
      </Row>
      <Row name="Kernels">{info.simd}</Row>
      <Row name="Running since">{startS === undefined ? '' : formatMoment(new Date(startS * 1000))}</Row>
    </dl>
  )
}

function Row({
  name,
  children,
}: {
  readonly name: string
  readonly children: ComponentChildren
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
