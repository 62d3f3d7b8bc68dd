import type { JSX } from 'preact'
import { collectionPath } from '../api/client.ts'
import type { CollectionStats, NodeStats, SearchState } from '../api/types.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Fault, Panel } from '../parts/basics.tsx'
import { usePolled } from '../state/polled.ts'

const periodMs = 5000

/** The state of a collection's index. */
export function IndexPanel({ name }: { readonly name: string }): JSX.Element {
  const { value, fault } = usePolled<CollectionStats>(`${collectionPath(name)}/stats`, periodMs)
  const stats = value.value
  return (
    <Panel title={`Index of ${name}`}>
      <Fault text={fault.value} />
      {stats !== undefined && (
        <div class="index-parts">
          <Figures stats={stats} />
          {stats.nodes !== undefined && <Nodes nodes={stats.nodes} missing={stats.partitions!.missing} />}
          <div>
            <h3 class="sub-title">Measured recall of the ten nearest</h3>
            <Recalls searches={stats.searches} />
            <p class="hint">
              Columns: searches without a filter, then searches with a filter that matches this share of the
              points.
            </p>
          </div>
        </div>
      )}
    </Panel>
  )
}

function Figures({ stats }: { readonly stats: CollectionStats }): JSX.Element {
  const { index, ids, attributes } = stats.memory_bytes
  return (
    <dl class="facts">
      {stats.nodes !== undefined && <Fact name="Points" value={formatCount(stats.points)} />}
      <Fact
        name="Dimension"
        value={stats.dimension === null ? 'not set yet' : formatCount(stats.dimension)}
      />
      <Fact name="Linked" value={formatCount(stats.linked)} />
      <Fact name="Waiting" value={formatCount(stats.waiting)} />
      <Fact name="Tombstones" value={formatCount(stats.tombstones)} />
      <Fact name="Segments" value={formatCount(stats.segments)} />
      <Fact name="Vectors and graphs" value={formatBytes(index)} />
      <Fact name="Ids" value={formatBytes(ids)} />
      <Fact name="Attributes" value={formatBytes(attributes)} />
      {stats.graphs.map(({ similarity, distance_source }) => (
        <Fact key={similarity} name={`Graph ${similarity}`} value={graphText(distance_source)} />
      ))}
      {stats.settling && <Fact name="Background work" value="building or measuring" />}
    </dl>
  )
}

/** The part of the collection on each node of a cluster. */
function Nodes({
  nodes,
  missing,
}: {
  readonly nodes: readonly NodeStats[]
  readonly missing: number
}): JSX.Element {
  return (
    <div>
      <h3 class="sub-title">On the nodes of the cluster</h3>
      <div class="table-wrap">
        <table class="stacking recall-table">
          <thead>
            <tr>
              <th scope="col">Node</th>
              {nodeColumns.map((name) => (
                <th key={name} scope="col" class="right">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <NodeRow key={node.node} stats={node} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        Each node holds copies of some points. The index figures are sums over all copies, but Points counts
        each point once.
        {missing > 0 &&
          ` No node responds for ${missing} of the partitions, so their points are not counted.`}
      </p>
    </div>
  )
}

const nodeColumns = ['Points', 'Linked', 'Waiting', 'Tombstones', 'Memory', 'Disk'] as const

function NodeRow({ stats }: { readonly stats: NodeStats }): JSX.Element {
  const name = <th scope="row">{stats.node}</th>
  if (!stats.answers) {
    return (
      <tr>
        {name}
        <td colSpan={6}>does not respond</td>
      </tr>
    )
  }
  const { index, ids, attributes } = stats.memory_bytes
  const counts = [stats.points, stats.linked, stats.waiting, stats.tombstones].map(formatCount)
  const bytes = [index + ids + attributes, stats.disk_bytes].map(formatBytes)
  return (
    <tr>
      {name}
      {[...counts, ...bytes].map((text, column) => (
        <td key={column} class="right number" data-label={nodeColumns[column]}>
          {text}
        </td>
      ))}
    </tr>
  )
}

function graphText(distanceSource: CollectionStats['graphs'][number]['distance_source']): string {
  if (distanceSource === null) return 'none yet'
  return distanceSource === 'nothing' ? 'none: the points are too similar' : `on ${distanceSource}`
}

function Recalls({ searches }: { readonly searches: readonly SearchState[] }): JSX.Element {
  const bins = searches[0]?.filtered.map(({ matching_share }) => matching_share) ?? []
  return (
    <div class="table-wrap">
      <table class="stacking recall-table">
        <thead>
          <tr>
            <th scope="col">Metric</th>
            <th scope="col">Plan</th>
            <th scope="col" class="right">
              No filter
            </th>
            {bins.map((bin) => (
              <th key={bin} scope="col" class="right">
                {binText(bin)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {searches.map(({ similarity, plan, ef_multiplier, recall, filtered }) => (
            <tr key={similarity}>
              <th scope="row">{similarity}</th>
              <td data-label="Plan">
                <span>
                  {plan}
                  {ef_multiplier !== null && ef_multiplier > 1 && (
                    <span class="muted"> ef × {ef_multiplier}</span>
                  )}
                </span>
              </td>
              <td class="right number" data-label="No filter">
                {recallText(plan, recall)}
              </td>
              {filtered.map((bin) => (
                <td
                  key={bin.matching_share}
                  class="right number"
                  data-label={`Filter, ${binText(bin.matching_share)}`}
                >
                  {recallText(plan, bin.recall)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Shares of points that match a filter: `0.1-0.3` is 10–30 %. */
function binText(bin: string): string {
  const [low, high] = bin.split('-').map((share) => Math.round(Number(share) * 100))
  return `${low}–${high} %`
}

function recallText(plan: SearchState['plan'], recall: number | null): string {
  if (plan === 'scan') return 'exact'
  if (recall === null) return 'not measured yet'
  return recall === 1 ? '1' : recall.toFixed(3)
}

function Fact({ name, value }: { readonly name: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  )
}
