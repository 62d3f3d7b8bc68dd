import type { ClusterStatus } from '../base/cluster-status.ts'
import { type HeldPart, isInParts, type RepairPlan, repairPlanOf } from '../base/repair-plan.ts'
import { refusalOf } from '../client/http-call.ts'
import { aligned } from './aligned.ts'
import { awaitJoin } from './cluster.ts'
import { fetchFrom, type HttpOptions, httpService } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

export interface RepairOptions extends HttpOptions {
  readonly from?: string
  readonly without?: readonly string[]
  readonly yes?: boolean
}

/** The status of one node, or why it did not answer. */
interface Asked {
  readonly name: string
  readonly url: string
  readonly status?: ClusterStatus
  readonly failure?: string
}

/**
 * Asks all nodes how far they have applied the lost log, and prints that. If confirmed, makes the furthest node begin a
 * new log: with its data, or, if nodes have a part of the points each, with the data of all nodes.
 *
 * @param others addresses of nodes that the first node does not know
 * @throws UsageError, Error if nothing can be repaired, or a node cannot be asked
 */
export async function repairLog(
  others: readonly string[],
  options: RepairOptions,
  environment: Environment,
): Promise<void> {
  const asked = await askAll(others, options, environment)
  console.log(textOf(asked))
  const furthest = chosenOf(asked, options)
  const plan = await planOf(asked, options, environment)
  const { node, position } = plan === undefined ? furthest.status! : statusOf(asked, plan.leader)
  if (!options.yes) {
    const what =
      plan === undefined
        ? `A new log would begin with the data of ${node}, at position ${position}; the others would fetch that`
        : `A new log would begin with the data of all these nodes; ${behindText(plan)}`
    console.log(
      `\n${what}, and what is left of the old log would be deleted.\nNothing was changed: confirm with --yes.`,
    )
    return
  }
  const { url } = asked.find(({ name }) => name === node)!
  const service = httpService({ ...options, http: url }, environment)
  const path = `/cluster/repair?position=${position}`
  const json = { 'content-type': 'application/json' }
  const response = await (plan === undefined
    ? fetchFrom(service, path, 'POST')
    : fetchFrom(service, path, 'POST', json, JSON.stringify(plan)))
  const text = await response.text()
  if (!response.ok)
    throw new Error(`${response.url} answered ${response.status}: ${refusalOf(response, text)}`)
  const { first } = JSON.parse(text) as { readonly first: number }
  const source = plan === undefined ? node : `the nodes, of which ${node} is the first`
  console.log(`\na new log has begun with the data of ${source}; its first position is ${first}`)
  await awaitJoin({ ...options, http: url }, environment)
}

/** Plans what each node keeps if nodes have a part of the points each; undefined if each node has all points. */
async function planOf(
  asked: readonly Asked[],
  options: RepairOptions,
  environment: Environment,
): Promise<RepairPlan | undefined> {
  const lost = asked.filter(({ status }) => status?.log_lost !== undefined)
  const parts: HeldPart[] = []
  for (const { url } of lost) {
    const response = await fetchFrom(httpService({ ...options, http: url }, environment), '/cluster/repair')
    const text = await response.text()
    // An earlier program, which refuses a repair if nodes have a part of the points each.
    if (response.status === 404 || response.status === 405) return undefined
    if (!response.ok)
      throw new Error(`${response.url} answered ${response.status}: ${refusalOf(response, text)}`)
    parts.push(JSON.parse(text) as HeldPart)
  }
  if (!isInParts(parts)) return undefined
  const { plan, missing } = repairPlanOf(parts, options.from)
  if (missing.length > 0) {
    throw new Error(
      `none of these nodes has ${missing.length} of the 256 partitions: start the nodes that have them, or restore a backup`,
    )
  }
  return plan
}

function statusOf(asked: readonly Asked[], node: string): ClusterStatus {
  return asked.find(({ name }) => name === node)!.status!
}

function behindText({ leader, behind, divided }: RepairPlan): string {
  const copies =
    behind === 0
      ? 'all copies of a partition are equal'
      : `${behind} copies of partitions are behind others, and would be fetched again`
  const sides =
    divided.length === 0
      ? ''
      : `; in ${divided.length} partitions two nodes each lack points of the other, and the data of the node further in the log would be used`
  return `${leader} is the furthest; ${copies}${sides}`
}

/** Asks the node of the options, all nodes that it knows, and the nodes at the given addresses. */
async function askAll(
  others: readonly string[],
  options: HttpOptions,
  environment: Environment,
): Promise<readonly Asked[]> {
  const { baseUrl } = httpService(options, environment)
  const first = await ask(baseUrl, baseUrl, options, environment)
  if (first.status === undefined) throw new Error(first.failure)
  const { nodes, node: own } = first.status
  const known = nodes.filter(({ name }) => name !== own)
  const asked = await Promise.all([
    ...known.map(({ name, address }) => ask(name, urlOf(address), options, environment)),
    ...others.map((address) => ask(address, urlOf(address), options, environment)),
  ])
  const all = [first, ...asked]
  // The first node may also know a node at a given address.
  return all.filter(({ name }, index) => all.findIndex((each) => each.name === name) === index)
}

async function ask(
  name: string,
  http: string,
  options: HttpOptions,
  environment: Environment,
): Promise<Asked> {
  try {
    const response = await fetchFrom(httpService({ ...options, http }, environment), '/cluster')
    const text = await response.text()
    if (response.status === 404) throw new Error(`${http}: this node is not in a cluster`)
    if (!response.ok) throw new Error(`${http} answered ${response.status}: ${refusalOf(response, text)}`)
    const status = JSON.parse(text) as ClusterStatus
    return { name: status.node, url: http, status }
  } catch (error) {
    if (error instanceof UsageError) throw error
    return { name, url: http, failure: (error as Error).message }
  }
}

/** Returns the furthest node or the named node. @throws Error if another node could be further */
function chosenOf(asked: readonly Asked[], { from, without = [] }: RepairOptions): Asked {
  const lost = asked.filter(({ status }) => status?.log_lost !== undefined)
  if (lost.length === 0) throw new Error('no node reports that the log of the cluster is lost')
  const unknown = asked.filter((each) => !lost.includes(each) && !without.includes(each.name))
  if (unknown.length > 0) {
    const names = unknown.map(({ name }) => name)
    throw new Error(
      `${names.join(', ')} did not answer, or did not report that the log is lost, and could be further than the others: start it, or ask again; if it is gone for good, continue without it: ${names.map((name) => `--without ${name}`).join(' ')}`,
    )
  }
  const [furthest] = lost.toSorted((a, b) => b.status!.position - a.status!.position)
  if (from === undefined) return furthest!
  const named = lost.find(({ name }) => name === from)
  if (named === undefined) throw new UsageError(`--from: ${from} is not one of the nodes whose log is lost`)
  return named
}

function textOf(asked: readonly Asked[]): string {
  const rows = asked.map(({ name, url, status, failure }) => [
    ...[name, url, String(status?.position ?? '')],
    failure ?? status?.log_lost ?? 'does not report that the log is lost',
  ])
  return aligned([['node', 'address', 'position', 'log'], ...rows]).join('\n')
}

/** The URL of an address that a node announces. */
function urlOf(address: string): string {
  return /^https?:/.test(address) ? address : `http://${address}`
}
