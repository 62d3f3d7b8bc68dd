import type { Command } from 'commander'
import type { ClusterStatusOptions } from './cluster.ts'
import { addHttpOptions, type HttpOptions } from './connection.ts'
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
}
