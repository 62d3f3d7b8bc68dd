import type { Command } from 'commander'
import type { ClusterStatusOptions } from './cluster.ts'
import type { RepairOptions } from './cluster-repair.ts'
import { addCollectionOption, addHttpOptions, type HttpOptions } from './connection.ts'
import type { Environment } from './usage.ts'

/** Adds `vicinal cluster` with its subcommands; what they do is loaded when one runs. */
export function addCluster(program: Command, environment: Environment): void {
  const cluster = program.command('cluster').description('the cluster of a running service, over HTTP')
  const actions = (): Promise<typeof import('./cluster.ts')> => import('./cluster.ts')

  addHttpOptions(cluster.command('status'))
    .description('the nodes of the cluster, and how far each has applied the log')
    .option('--json', 'print the status as JSON')
    .action(async (options: ClusterStatusOptions) => (await actions()).showCluster(options, environment))
  addHttpOptions(cluster.command('remove <node>'))
    .description('take a stopped node out of the cluster: the log is not kept for it any more')
    .option('--yes', 'confirm the removal')
    .action(async (node: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).removeNode(node, options, environment),
    )
  addHttpOptions(cluster.command('join'))
    .description('wait until the node has joined its cluster, and say what it is doing meanwhile')
    .action(async (options: HttpOptions) => (await actions()).awaitJoin(options, environment))
  addHttpOptions(cluster.command('drain <node>'))
    .description('have a node take no more clients, so that it can be stopped')
    .option('--undo', 'have it take clients again')
    .action(async (node: string, options: HttpOptions & { readonly undo?: boolean }) =>
      (await actions()).drainNode(node, options, environment),
    )
  addHttpOptions(cluster.command('replicas <count>'))
    .description(
      'have each point on so many nodes from now on, in a cluster whose nodes have a part of the points each; copies come and go while everything goes on',
    )
    .option('--yes', 'confirm that there are fewer copies than now')
    .action(async (count: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).setReplicas(count, options, environment),
    )
  addHttpOptions(cluster.command('refetch <node>'))
    .description('have a node fetch everything from another one, because what it holds is wrong')
    .option('--yes', 'confirm that it gives up what it holds')
    .action(async (node: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).refetchNode(node, options, environment),
    )
  addHttpOptions(cluster.command('repair [addresses...]'))
    .description(
      'when the log of the cluster is lost: show how far the nodes are, and begin a new log with what the furthest one holds. It asks the nodes that the asked one knows, and those at the addresses that are given',
    )
    .option('--from <node>', 'begin with what this node holds instead')
    .option('--without <node>', 'go on although this node does not answer', collected)
    .option('--yes', 'confirm it; without it nothing is changed')
    .action(async (addresses: readonly string[], options: RepairOptions) =>
      (await import('./cluster-repair.ts')).repairLog(addresses, options, environment),
    )
  addHttpOptions(addCollectionOption(cluster.command('backup <file>')))
    .description(
      'write all collections and aliases to one file, with everything that was acknowledged anywhere before; with --collection a snapshot of one',
    )
    .action(async (file: string, options: HttpOptions) =>
      (await actions()).backUp(file, options, environment),
    )
}

/** An option that can be given several times. */
function collected(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}
