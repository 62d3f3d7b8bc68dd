import {
  type ClusterStatus,
  logServerWord,
  type NodeState,
  type NodeStatus,
} from '../../../src/base/cluster-status.ts'
import { plural } from './format.ts'
import type { Finding } from './health.ts'

/** The number of log records that a node has not applied yet; undefined while it is unknown. */
export function lagOf({ position }: NodeStatus, { log }: ClusterStatus): number | undefined {
  if (position === undefined || log === undefined) return undefined
  // The node may have reported its position after the end of the log was read.
  return Math.max(0, log.last - position)
}

/** The findings for the operator of a cluster, worst first, each with advice. */
export function clusterFindings(status: ClusterStatus): readonly Finding[] {
  return [
    ...faultsOf(status),
    ...logFindings(status),
    ...partitionFindings(status),
    ...nodeFindings(status),
    ...versionFindings(status),
  ]
}

function* faultsOf({ node, fault, gaps, digest_mismatches: mismatches }: ClusterStatus): Generator<Finding> {
  if (fault !== undefined) {
    yield {
      level: 'fault',
      title: `Node ${node} cannot be used: ${fault}.`,
      advice: 'It no longer applies changes, and /readyz tells load balancers not to use it.',
    }
  }
  if (mismatches > 0) {
    yield {
      level: 'fault',
      title: `${plural(mismatches, 'comparison')} with other nodes found different data.`,
      advice: 'Nodes hold different points. A node that differs from most others is no longer ready.',
    }
  }
  if (gaps > 0) {
    yield {
      level: 'fault',
      title: `${plural(gaps, 'position')} of the log had no record.`,
      advice: 'A log server has lost data. Check the disks of the log servers.',
    }
  }
}

function* logFindings({ log, is_connected: isConnected }: ClusterStatus): Generator<Finding> {
  if (log === undefined || !isConnected) {
    yield {
      level: 'fault',
      title: 'The log servers do not respond.',
      advice:
        'Searches and reads still work. Changes are refused with 503, and the status of other nodes is unknown.',
    }
  }
  for (const server of log?.servers ?? []) {
    if (server.is_current) continue
    yield {
      level: 'warning',
      title: `Log server ${server.name} is ${logServerWord(server)}.`,
      advice: 'Changes still work. They stop if another log server fails: check its process and its disk.',
    }
  }
}

function* partitionFindings({ partitions }: ClusterStatus): Generator<Finding> {
  const { replicas, incoming, surplus, unowned } = partitions
  const short = partitions.under_replicated - unowned
  if (unowned > 0) {
    yield {
      level: 'fault',
      title: `${plural(unowned, 'partition')} of 256 ${unowned === 1 ? 'is' : 'are'} unavailable.`,
      advice:
        'No node that holds a copy responds, and requests that need one get 503. Start the unreachable nodes.',
    }
  }
  if (short > 0) {
    yield {
      level: 'warning',
      title: `${plural(short, 'partition')} of 256 ${short === 1 ? 'has' : 'have'} fewer copies than ${replicas}.`,
      advice:
        'Requests still work. Do not stop another node until the copies have arrived or the nodes that hold them are back.',
    }
  }
  if (incoming > 0 || surplus > 0) {
    yield {
      level: 'note',
      title: 'Partitions are moving.',
      advice: `Copies still to arrive: ${incoming}. Copies to drop after that: ${surplus}. Requests work meanwhile.`,
    }
  }
}

function* nodeFindings(status: ClusterStatus): Generator<Finding> {
  const away = status.nodes.filter(({ is_alive }) => !is_alive)
  if (away.length > 0) {
    const are = away.length === 1 ? 'is' : 'are'
    yield {
      level: 'warning',
      title: `${namesOf(away)} ${are} unreachable.`,
      advice: 'Remove a node that will never come back.',
    }
  }
  for (const node of status.nodes) {
    // For this node, `faultsOf` reports the fault itself.
    if (!node.is_alive || node.is_ready || (node.name === status.node && status.fault !== undefined)) continue
    const reason = node.state && stateReasons[node.state]
    if (reason !== undefined) {
      yield { level: 'note', title: `Node ${node.name} is not in use:`, advice: reason }
      continue
    }
    const lag = lagOf(node, status) ?? 0
    yield {
      level: 'warning',
      title: `Node ${node.name} is not ready.`,
      advice:
        lag > 0
          ? `It is catching up and has ${plural(lag, 'log record')} to apply.`
          : 'Its /readyz shows the reason.',
    }
  }
}

/** Why a node in one of these intended states is not ready. */
const stateReasons: Readonly<Partial<Record<NodeState, string>>> = {
  joining: 'it waits for the log servers, or for the other nodes.',
  copying: 'it copies the data of another node.',
  logLost: 'the log of the cluster is lost.',
  failed: 'it cannot apply a record of the log; its own log says why.',
  draining: 'an operator told it to accept no more clients.',
}

function* versionFindings({ nodes }: ClusterStatus): Generator<Finding> {
  const versions = new Set(nodes.flatMap(({ version = [] }) => version))
  if (versions.size < 2) return
  yield {
    level: 'note',
    title: `Nodes run versions ${[...versions].sort().join(' and ')}.`,
    advice: 'Update the older nodes, one at a time.',
  }
}

function namesOf(nodes: readonly NodeStatus[]): string {
  const names = nodes.map(({ name }) => name)
  return `${names.length === 1 ? 'Node' : 'Nodes'} ${names.join(', ')}`
}
