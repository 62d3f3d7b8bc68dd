import type { Command } from 'commander'
import type { ClusterStatusOptions } from './cluster.ts'
import { addHttpOptions, type HttpOptions } from './connection.ts'
import type { Environment } from './usage.ts'

/** Adds `vicinal cluster` with its subcommands. Their code is loaded when one runs. */
export function addCluster(program: Command, environment: Environment): void {
  const cluster = program.command('cluster').description('show and change the cluster of a running service')
  const actions = (): Promise<typeof import('./cluster.ts')> => import('./cluster.ts')

  addHttpOptions(cluster.command('status'))
    .description('print the nodes of the cluster, and how far each has applied the log')
    .option('--json', 'print the status as JSON')
    .action(async (options: ClusterStatusOptions) => (await actions()).showCluster(options, environment))
  addHttpOptions(cluster.command('remove <node>'))
    .description('remove a stopped node from the cluster: the log no longer keeps records for it')
    .option('--yes', 'confirm the removal')
    .action(async (node: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).removeNode(node, options, environment),
    )
  addHttpOptions(cluster.command('join'))
    .description('wait until the node has joined its cluster, and print its progress')
    .action(async (options: HttpOptions) => (await actions()).awaitJoin(options, environment))
  addHttpOptions(cluster.command('drain <node>'))
    .description('make a node accept no more clients, so that it can be stopped')
    .option('--undo', 'make it accept clients again')
    .action(async (node: string, options: HttpOptions & { readonly undo?: boolean }) =>
      (await actions()).drainNode(node, options, environment),
    )
  addHttpOptions(cluster.command('replicas <count>'))
    .description(
      'set how many nodes have each point, in a cluster whose nodes have a part of the points each; copies are made and deleted while the service runs',
    )
    .option('--yes', 'confirm that there are fewer copies than now')
    .action(async (count: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).setReplicas(count, options, environment),
    )
  addHttpOptions(cluster.command('refetch <node>'))
    .description('make a node fetch all data from another node, because its own data are wrong')
    .option('--yes', 'confirm that it discards its data')
    .action(async (node: string, options: HttpOptions & { readonly yes?: boolean }) =>
      (await actions()).refetchNode(node, options, environment),
    )
}
