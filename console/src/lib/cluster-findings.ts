import type { ClusterStatus, NodeStatus } from '../../../src/base/cluster-status.ts'
import { formatBytes, plural } from './format.ts'
import type { Finding } from './health.ts'

/** From here on the service refuses inserts. */
const fullShare = 0.95
/** Time enough to find out which node keeps the log from being trimmed. */
const nearlyFullShare = 0.8

/** Records of the log that a node has not applied yet; undefined while that is not known. */
export function lagOf({ position }: NodeStatus, { log }: ClusterStatus): number | undefined {
  if (position === undefined || log === undefined) return undefined
  // A node may have said where it is after the log was asked.
  return Math.max(0, log.last - position)
}

/** What an operator of a cluster has to know, worst first, each with what to do. */
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
      advice: 'It applies no more changes, and /readyz keeps load balancers away from it.',
    }
  }
  if (mismatches > 0) {
    yield {
      level: 'fault',
      title: `${plural(mismatches, 'comparison')} with other nodes came out different.`,
      advice: 'Nodes hold different points. One that most others contradict is not ready any more.',
    }
  }
  if (gaps > 0) {
    yield {
      level: 'fault',
      title: `${plural(gaps, 'position')} of the log had no record.`,
      advice: 'A log server has lost data: check the disks of the log servers.',
    }
  }
}

function* logFindings({ log, is_connected: isConnected }: ClusterStatus): Generator<Finding> {
  if (log === undefined || !isConnected) {
    yield {
      level: 'fault',
      title: 'The log servers do not answer.',
      advice: 'Searches and reads go on. Changes are refused with 503, and other nodes cannot be seen.',
    }
    return
  }
  const share = log.bytes / log.bytes_max
  const used = `${formatBytes(log.bytes)} of ${formatBytes(log.bytes_max)}`
  const advice = 'It is trimmed below what all nodes have: start those that are away, or remove them.'
  if (share >= fullShare) {
    yield { level: 'fault', title: `The log is full (${used}): inserts are refused with 507.`, advice }
  } else if (share >= nearlyFullShare) {
    yield { level: 'warning', title: `The log is nearly full (${used}).`, advice }
  }
}

function* partitionFindings({ partitions }: ClusterStatus): Generator<Finding> {
  if (partitions === undefined) return
  const { replicas, to_come: toCome, to_go: toGo, without_node: without } = partitions
  const short = partitions.under_replicated - without
  if (without > 0) {
    yield {
      level: 'fault',
      title: `${plural(without, 'partition')} of 256 cannot be asked for.`,
      advice:
        'No node that has them answers: requests that need them get 503. Start the nodes that are away.',
    }
  }
  if (short > 0) {
    yield {
      level: 'warning',
      title: `${plural(short, 'partition')} of 256 ${short === 1 ? 'has' : 'have'} fewer copies than ${replicas}.`,
      advice:
        'Requests go on. Stop no other node before the copies have come, or the nodes that have them are back.',
    }
  }
  if (toCome > 0 || toGo > 0) {
    yield {
      level: 'note',
      title: 'Partitions are moving.',
      advice: `Copies still to come: ${toCome}. Copies that will be dropped after that: ${toGo}. Requests go on meanwhile.`,
    }
  }
}

function* nodeFindings(status: ClusterStatus): Generator<Finding> {
  const away = status.nodes.filter(({ is_there }) => !is_there)
  if (away.length > 0) {
    const [are, them] = away.length === 1 ? ['is', 'it'] : ['are', 'them']
    yield {
      level: 'warning',
      title: `${namesOf(away)} ${are} away.`,
      advice: `The log is kept for ${them}, so that ${them === 'it' ? 'it catches' : 'they catch'} up later. Remove what never comes back.`,
    }
  }
  for (const node of status.nodes) {
    // Of this node the fault itself is shown.
    if (!node.is_there || node.is_ready || (node.name === status.node && status.fault !== undefined)) continue
    const doing = node.state && doings[node.state]
    if (doing !== undefined) {
      yield { level: 'note', title: `Node ${node.name} is not asked:`, advice: doing }
      continue
    }
    const lag = lagOf(node, status) ?? 0
    yield {
      level: 'warning',
      title: `Node ${node.name} is not ready.`,
      advice:
        lag > 0
          ? `It is catching up: ${plural(lag, 'record')} of the log to apply.`
          : 'Its /readyz says why.',
    }
  }
}

/** What somebody wanted of a node, and that keeps it from being ready. */
const doings: Readonly<Record<NonNullable<NodeStatus['state']>, string>> = {
  joining: 'it copies the points of another node, and then applies what was logged meanwhile.',
  draining: 'it was told to take no more clients.',
  refetching: 'it was told to fetch its points from another node.',
}

function* versionFindings({ nodes }: ClusterStatus): Generator<Finding> {
  const versions = new Set(nodes.flatMap(({ version = [] }) => version))
  if (versions.size < 2) return
  yield {
    level: 'note',
    title: `Nodes run versions ${[...versions].sort().join(' and ')}.`,
    advice: 'Update the older ones, one after the other.',
  }
}

function namesOf(nodes: readonly NodeStatus[]): string {
  const names = nodes.map(({ name }) => name)
  return `${names.length === 1 ? 'Node' : 'Nodes'} ${names.join(', ')}`
}
