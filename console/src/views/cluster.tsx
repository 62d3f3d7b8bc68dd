import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import {
  type ClusterStatus,
  type LogStatus,
  logServerWord,
  type NodePartitions,
  type NodeStatus,
  stateWords,
} from '../../../src/base/cluster-status.ts'
import { call } from '../api/client.ts'
import { clusterFindings, lagOf } from '../lib/cluster-findings.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Button, Empty, Fault, Page, Panel } from '../parts/basics.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Figure, FindingItem } from '../parts/findings.tsx'
import { report } from '../parts/toast.tsx'
import { usePolled } from '../state/polled.ts'
import { serviceConfig } from '../state/service-config.ts'

/** Nodes exchange their status every second. */
const periodMs = 2000

export function Cluster(): JSX.Element {
  return serviceConfig.value.isCluster ? <ClusterPage /> : <NoCluster />
}

/** Shown when a link leads to this page on a server without a cluster. */
function NoCluster(): JSX.Element {
  return (
    <Page title="Cluster">
      <Empty icon="cluster" title="This server is not part of a cluster.">
        <p>To run a node of a cluster, set CLUSTER_NATS_URL.</p>
      </Empty>
    </Page>
  )
}

function ClusterPage(): JSX.Element {
  const { value: status, fault, refresh } = usePolled<ClusterStatus>('cluster', periodMs)
  const removed = useSignal<string | undefined>(undefined)
  const known = status.value
  return (
    <Page
      title="Cluster"
      lead={known && `${known.name}, as seen by node ${known.node}. This page refreshes automatically.`}
    >
      <Fault text={fault.value} />
      {known !== undefined && (
        <>
          <Health status={known} />
          <Figures status={known} />
          <Nodes
            status={known}
            onRemove={(name) => {
              removed.value = name
            }}
          />
          <LogPanel log={known.log} />
        </>
      )}
      {removed.value !== undefined && (
        <RemoveDialog
          name={removed.value}
          onRemoved={refresh}
          onClose={() => {
            removed.value = undefined
          }}
        />
      )}
    </Page>
  )
}

function Health({ status }: { readonly status: ClusterStatus }): JSX.Element {
  const found = clusterFindings(status)
  return (
    <div class="health" role="status">
      {found.length === 0 && (
        <p class="health-good">
          <span class="dot good" /> All nodes are ready, and the log responds.
        </p>
      )}
      {found.map((each) => (
        <FindingItem key={each.title} {...each} />
      ))}
    </div>
  )
}

function Figures({ status }: { readonly status: ClusterStatus }): JSX.Element {
  const { nodes, log, gaps, partitions, digest_mismatches: mismatches } = status
  const ready = nodes.filter(({ is_ready }) => is_ready).length
  const zones = new Set(nodes.map(({ zone }) => zone)).size
  return (
    <dl class="figures">
      {log === undefined ? (
        <Figure name="Nodes ready" value="unknown" note="no status from the other nodes" />
      ) : (
        <Figure
          name="Nodes ready"
          value={`${ready} of ${nodes.length}`}
          note={zones === 1 ? 'in one zone' : `in ${zones} zones`}
        />
      )}
      <Figure
        name="Position"
        value={formatCount(status.position)}
        note={log === undefined ? 'of this node' : `the log ends at ${formatCount(log.last)}`}
      />
      <Figure
        name="Copies of a point"
        value={formatCount(Math.min(partitions.replicas, nodes.length))}
        note={isMoving(partitions) ? 'some still have to move' : 'all in place'}
      />
      <Figure name="Gaps in the log" value={formatCount(gaps)} note={sinceStart(gaps)} />
      <Figure name="Digest mismatches" value={formatCount(mismatches)} note={sinceStart(mismatches)} />
    </dl>
  )
}

function isMoving({ incoming, surplus }: ClusterStatus['partitions']): boolean {
  return incoming + surplus > 0
}

function sinceStart(count: number): string {
  return count === 0 ? 'since the start, as expected' : 'since the start; expected 0'
}

function Nodes(props: {
  readonly status: ClusterStatus
  readonly onRemove: (name: string) => void
}): JSX.Element {
  const { status, onRemove } = props
  return (
    <Panel title="Nodes" class="flush titled">
      <div class="table-wrap">
        <table class="stacking nodes">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">State</th>
              <th scope="col">Zone</th>
              <th scope="col">Address</th>
              <th scope="col">Version</th>
              <th scope="col" class="right">
                Position
              </th>
              <th scope="col" class="right">
                Behind
              </th>
              <th scope="col" class="right">
                Partitions
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {status.nodes.map((node) => (
              <NodeRow key={node.name} node={node} status={status} onRemove={onRemove} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

function NodeRow(props: {
  readonly node: NodeStatus
  readonly status: ClusterStatus
  readonly onRemove: (name: string) => void
}): JSX.Element {
  const { node, status, onRemove } = props
  const { name, zone, address, is_alive: isAlive, version, position } = node
  const lag = lagOf(node, status)
  return (
    <tr>
      <td data-label="Node">
        <span class="tags">
          <strong>{name}</strong>
          {name === status.node && <span class="tag">this node</span>}
        </span>
      </td>
      <td data-label="State">
        <State node={node} />
      </td>
      <td data-label="Zone">{zone}</td>
      <td data-label="Address">
        <code>{address}</code>
      </td>
      <td data-label="Version">{version ?? <Unknown />}</td>
      <td data-label="Position" class="right">
        {position === undefined ? <Unknown /> : formatCount(position)}
      </td>
      <td data-label="Behind" class="right">
        {lag === undefined ? <Unknown /> : formatCount(lag)}
      </td>
      <td data-label="Partitions" class="right">
        {shareText(node.partitions)}
      </td>
      <td>
        {!isAlive && (
          <span class="row-actions">
            <Button
              kind="quiet"
              icon="trash"
              label={`Remove ${name} from the cluster`}
              onClick={() => onRemove(name)}
            />
          </span>
        )}
      </td>
    </tr>
  )
}

function shareText({ owned, wanted, from }: NodePartitions): string {
  const share = owned === wanted ? `${owned}` : `${owned}, should be ${wanted}`
  return from === undefined ? share : `${share}, receiving some from ${from}`
}

function Unknown(): JSX.Element {
  return <span class="muted">unknown</span>
}

function State({ node }: { readonly node: NodeStatus }): JSX.Element {
  const [dot, text] = stateOf(node)
  return (
    <span class="nowrap">
      <span class={`dot ${dot}`} />
      {text}
    </span>
  )
}

function stateOf({ is_alive: isAlive, is_ready: isReady, state }: NodeStatus): readonly [string, string] {
  if (!isAlive) return ['bad', 'unreachable']
  if (isReady) return ['good', 'serving']
  return ['note', state === undefined || state === 'serving' ? 'not ready' : stateWords[state]]
}

function LogPanel({ log }: { readonly log: LogStatus | undefined }): JSX.Element {
  if (log === undefined) {
    return (
      <Panel title="Log">
        <p class="muted">The state of the log is unknown.</p>
      </Panel>
    )
  }
  const { first, last, bytes, bytes_max: bytesMax, servers } = log
  const share = (100 * bytes) / bytesMax
  return (
    <Panel title="Log">
      <dl class="facts">
        <div>
          <dt>First position</dt>
          <dd class="number">{formatCount(first)}</dd>
        </div>
        <div>
          <dt>Last position</dt>
          <dd class="number">{formatCount(last)}</dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd class="number">
            {formatBytes(bytes)} of {formatBytes(bytesMax)}
          </dd>
        </div>
        {servers.map((server) => (
          <div key={server.name}>
            <dt>Server {server.name}</dt>
            <dd>{logServerWord(server)}</dd>
          </div>
        ))}
      </dl>
      <progress class="progress below" max={100} value={share} aria-label="How full the log is">
        {share.toFixed(0)} %
      </progress>
    </Panel>
  )
}

function RemoveDialog(props: {
  readonly name: string
  readonly onRemoved: () => void
  readonly onClose: () => void
}): JSX.Element {
  const { name } = props
  const remove = async (): Promise<void> => {
    await call('DELETE', `cluster/nodes/${encodeURIComponent(name)}`)
    props.onRemoved()
    report(`Removed ${name}.`)
  }
  return (
    <FormDialog
      title={`Remove ${name} from the cluster?`}
      submit="Remove node"
      kind="danger"
      onSubmit={remove}
      onClose={props.onClose}
    >
      <p>
        Remove a node only if it will never come back. The other nodes and the data directory of{' '}
        <code>{name}</code> do not change. If <code>{name}</code> runs again, it joins as a new node.
      </p>
    </FormDialog>
  )
}
