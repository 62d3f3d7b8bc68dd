import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import {
  type ClusterStatus,
  drainedReason,
  logServerWord,
  type NodePartitions,
  type NodeStatus,
  type PartitionsStatus,
  stateWords,
} from '../base/cluster-status.ts'
import { type HttpService, httpRequest } from '../client/http-call.ts'
import { readConfig } from '../config.ts'
import { aligned, type Environment, UsageError } from './arguments.ts'
import { addHttpOptions, fetchFrom, type HttpOptions, httpService, textOf } from './connection.ts'

interface ClusterStatusOptions extends HttpOptions {
  readonly json?: boolean
}

/** @throws UsageError without log servers */
async function found(environment: Environment): Promise<void> {
  const config = readConfig(environment)
  if (config.clusterNatsUrl.length === 0) throw new UsageError('set CLUSTER_NATS_URL to the log servers')
  const { foundCluster } = await import('../service/cluster.ts')
  const { createLogger } = await import('../base/log.ts')
  const isNew = await foundCluster(config, createLogger({ level: config.logLevel, pretty: false }))
  const { clusterName: name } = config
  console.log(
    isNew ? `the cluster ${name} is founded: start its nodes` : `there is a cluster ${name} already`,
  )
}

/** Prints how a node sees its cluster. */
async function showCluster(options: ClusterStatusOptions, environment: Environment): Promise<void> {
  const status = await statusFrom(httpService(options, environment))
  console.log(options.json ? JSON.stringify(status) : linesOf(status).join('\n'))
}

/** Makes a node accept no more clients, or accept them again. */
async function drainNode(
  node: string,
  options: HttpOptions & { readonly undo?: boolean },
  environment: Environment,
): Promise<void> {
  await changeNode(options.undo ? 'UndrainNode' : 'DrainNode', node, options, environment)
  console.log(
    options.undo
      ? `node ${node} accepts clients again`
      : `node ${node} accepts no more clients: when its last client has gone, and other nodes have all its partitions, stop it; remove it if it will not come back`,
  )
}

/**
 * Sets how many nodes have each point.
 *
 * @throws UsageError if that is fewer than now, and is not confirmed
 */
async function setReplicas(
  count: string,
  options: HttpOptions & { readonly yes?: boolean },
  environment: Environment,
): Promise<void> {
  const replicas = Number(count)
  if (!Number.isInteger(replicas) || replicas < 1) throw new UsageError(`${count} is not a number of nodes`)
  const service = httpService(options, environment)
  const { partitions, nodes } = await statusFrom(service)
  const before = partitions.replicas
  if (replicas < before && !options.yes) {
    const yet = nodes.length < before ? ', once there are as many nodes' : ''
    throw new UsageError(
      `each point is on ${before} nodes${yet}; with ${replicas}, ${before - replicas} fewer nodes may fail at a time; confirm with --yes`,
    )
  }
  await textOf(await fetchFrom(service, httpRequest('SetReplicas', { count: replicas })))
  console.log(
    `each point will be on ${replicas === 1 ? 'one node' : `up to ${replicas} nodes`}: \`vicinal cluster status\` shows how many copies are still to be fetched and deleted`,
  )
}

/** Makes a node fetch all data from another node. */
async function refetchNode(
  node: string,
  options: HttpOptions & { readonly yes?: boolean },
  environment: Environment,
): Promise<void> {
  if (!options.yes) {
    throw new UsageError(
      `node ${node} would discard its data, and not be ready until it has fetched them again: confirm with --yes`,
    )
  }
  await changeNode('RefetchNode', node, options, environment)
  console.log(
    `node ${node} fetches all data from another node: \`vicinal cluster join\` at this node shows its progress`,
  )
}

/** Waits until the node is ready, or only being drained, and prints what it waits for. */
async function awaitJoin(options: HttpOptions, environment: Environment): Promise<void> {
  const service = httpService(options, environment)
  let isDrained = false
  for (let before = ''; ; ) {
    const response = await fetchFrom(service, '/readyz')
    const said = await response.text()
    isDrained = said.trim() === drainedReason
    if (response.ok || isDrained) break
    if (said !== before) console.error(said)
    before = said
    await delay(askAgainMs)
  }
  const { name, node, position } = await statusFrom(service)
  const drained = isDrained ? ', and is being drained' : ''
  console.log(`node ${node} has joined the cluster ${name}, at position ${position} of its log${drained}`)
}

async function changeNode(
  change: 'DrainNode' | 'UndrainNode' | 'RefetchNode' | 'RemoveNode',
  node: string,
  options: HttpOptions,
  environment: Environment,
): Promise<void> {
  await textOf(await fetchFrom(httpService(options, environment), httpRequest(change, { name: node })))
}

/** Removes a node from its cluster. */
async function removeNode(
  node: string,
  options: HttpOptions & { readonly yes?: boolean },
  environment: Environment,
): Promise<void> {
  if (!options.yes) throw new UsageError(`node ${node} would have to join again: confirm with --yes`)
  await changeNode('RemoveNode', node, options, environment)
  console.log(`node ${node} was removed`)
}

async function statusFrom(service: HttpService): Promise<ClusterStatus> {
  const response = await fetchFrom(service, httpRequest('GetCluster'))
  if (response.status === 404) throw new Error(`${response.url}: this node is not in a cluster`)
  return JSON.parse(await textOf(response))
}

const askAgainMs = 500

function linesOf(status: ClusterStatus): string[] {
  const { log, fault, partitions } = status
  const lines = [
    `cluster ${status.name}, as node ${status.node} sees it`,
    log === undefined
      ? 'log: its servers do not answer'
      : `log: positions ${log.first} to ${log.last}, ${log.bytes} of ${log.bytes_max} bytes`,
    ...(log?.servers ?? []).map((server) => `log server ${server.name}: ${logServerWord(server)}`),
    ...(fault === undefined ? [] : [`fault: ${fault}`]),
    partitionsOf(partitions, status.nodes.length),
    ...(status.gaps === 0 ? [] : [`positions missing in the log: ${status.gaps}`]),
    ...(status.digest_mismatches === 0 ? [] : [`digests that differed: ${status.digest_mismatches}`]),
    '',
    ...aligned([
      ['node', 'zone', 'address', 'state', 'position', 'version', 'partitions'],
      ...status.nodes.map((node) => cellsOf(node)),
    ]),
  ]
  return lines
}

function partitionsOf(partitions: PartitionsStatus, nodes: number): string {
  const { incoming, surplus, unowned, under_replicated } = partitions
  const moves = [
    ...(incoming === 0 ? [] : [`${incoming} copies still to be fetched`]),
    ...(surplus === 0 ? [] : [`${surplus} still to be deleted`]),
  ]
  const texts = [
    `partitions: 256, on ${Math.min(partitions.replicas, nodes)} nodes each: ${moves.join(' and ') || 'all in place'}`,
    ...(under_replicated === 0 ? [] : [`${under_replicated} on fewer reachable nodes`]),
    ...(unowned === 0 ? [] : [`${unowned} without a reachable node`]),
  ]
  return texts.join('; ')
}

function cellsOf({ name, zone, address, position, version, partitions, ...node }: NodeStatus): string[] {
  const state = node.is_alive ? stateText(node) : 'away'
  return [name, zone, address, state, String(position ?? ''), version ?? '', shareText(partitions)]
}

/** A node that serves is not ready while its disk is full, or while others contradict it. */
function stateText({ state = 'joining', is_ready }: Pick<NodeStatus, 'state' | 'is_ready'>): string {
  return state === 'serving' && !is_ready ? 'not ready' : stateWords[state]
}

function shareText({ owned, wanted, from }: NodePartitions): string {
  const share = owned === wanted ? `${owned}` : `${owned}, should be ${wanted}`
  return from === undefined ? share : `${share}, fetching from ${from}`
}

/** Adds `vicinal cluster` with its subcommands. */
export function addCluster(program: Command, environment: Environment): void {
  const cluster = program.command('cluster').description('show and change the cluster of a running service')
  cluster
    .command('found')
    .description('found the cluster of the CLUSTER_ settings in its log servers, once: then start its nodes')
    .action(() => found(environment))
  addHttpOptions(cluster.command('status'))
    .description('print the nodes of the cluster, and how far each has applied the log')
    .option('--json', 'print the status as JSON')
    .action((options) => showCluster(options, environment))
  addHttpOptions(cluster.command('remove <node>'))
    .description('remove a stopped node from the cluster: the log no longer keeps records for it')
    .option('--yes', 'confirm the removal')
    .action((node, options) => removeNode(node, options, environment))
  addHttpOptions(cluster.command('join'))
    .description('wait until the node has joined its cluster, and print its progress')
    .action((options) => awaitJoin(options, environment))
  addHttpOptions(cluster.command('drain <node>'))
    .description('make a node accept no more clients, so that it can be stopped')
    .option('--undo', 'make it accept clients again')
    .action((node, options) => drainNode(node, options, environment))
  addHttpOptions(cluster.command('replicas <count>'))
    .description('set how many nodes have each point; copies are made and deleted while the service runs')
    .option('--yes', 'confirm that there are fewer copies than now')
    .action((count, options) => setReplicas(count, options, environment))
  addHttpOptions(cluster.command('refetch <node>'))
    .description('make a node fetch all data from another node, because its own data are wrong')
    .option('--yes', 'confirm that it discards its data')
    .action((node, options) => refetchNode(node, options, environment))
}
