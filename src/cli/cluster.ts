import type { ClusterStatus, NodeStatus } from '../base/cluster-status.ts'
import { refusalOf } from '../client/http-call.ts'
import { fetchFrom, type HttpOptions, httpService } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

export interface ClusterStatusOptions extends HttpOptions {
  readonly json?: boolean
}

/** Prints how a node sees its cluster. */
export async function showCluster(options: ClusterStatusOptions, environment: Environment): Promise<void> {
  const response = await fetchFrom(httpService(options, environment), '/cluster')
  const text = await response.text()
  if (response.status === 404) throw new Error(`${response.url}: this node is not in a cluster`)
  if (!response.ok)
    throw new Error(`${response.url} answered ${response.status}: ${refusalOf(response, text)}`)
  console.log(options.json ? text : textOf(JSON.parse(text) as ClusterStatus))
}

/** Takes a node out of its cluster. */
export async function removeNode(
  node: string,
  options: HttpOptions & { readonly yes?: boolean },
  environment: Environment,
): Promise<void> {
  if (!options.yes) throw new UsageError(`node ${node} would have to join anew: confirm with --yes`)
  const path = `/cluster/nodes/${encodeURIComponent(node)}`
  const response = await fetchFrom(httpService(options, environment), path, 'DELETE')
  const text = await response.text()
  if (!response.ok)
    throw new Error(`${response.url} answered ${response.status}: ${refusalOf(response, text)}`)
  console.log(`node ${node} was removed`)
}

function textOf(status: ClusterStatus): string {
  const { log, fault } = status
  const lines = [
    `cluster ${status.name}, as node ${status.node} sees it`,
    log === undefined
      ? 'log: its servers do not answer'
      : `log: positions ${log.first} to ${log.last}, ${log.bytes} of ${log.bytes_max} bytes`,
    ...(fault === undefined ? [] : [`fault: ${fault}`]),
    ...(status.gaps === 0 ? [] : [`positions that the log did not have: ${status.gaps}`]),
    '',
    ...aligned([
      ['node', 'zone', 'address', 'state', 'position', 'version'],
      ...status.nodes.map((node) => cellsOf(node)),
    ]),
  ]
  return lines.join('\n')
}

function cellsOf({ name, zone, address, is_there, is_ready, position, version }: NodeStatus): string[] {
  const state = is_there ? (is_ready ? 'ready' : 'not ready') : 'away'
  return [name, zone, address, state, String(position ?? ''), version ?? '']
}

/** Rows of cells as lines, each column as wide as its widest cell. */
function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}
