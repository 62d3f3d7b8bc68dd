import type { Command } from 'commander'
import { collectionNameRule } from '../base/collection.ts'
import { whole } from './arguments.ts'
import type { CreateOptions, DeleteOptions, ListOptions } from './collections.ts'
import { addConnectionOptions, type ConnectionOptions } from './connection.ts'
import type { Environment } from './usage.ts'

/** Adds `vicinal collections` with its subcommands. Their code is loaded when one runs. */
export function addCollections(program: Command, environment: Environment): void {
  const collections = program
    .command('collections')
    .description('list, create and delete collections and aliases')
    .addHelpText('after', examples)
  const add = (usage: string, description: string): Command =>
    addConnectionOptions(collections.command(usage).description(description))
  const actions = (): Promise<typeof import('./collections.ts')> => import('./collections.ts')

  add('list', 'print all collections, with their points, settings and aliases')
    .option('--json', 'print one JSON object per line')
    .action(async (options: ListOptions) => (await actions()).listCollections(options, environment))
  add('create <name>', 'create a collection; does nothing if it exists with these settings')
    .option('--dimension <n>', 'components of every vector; by default the first insert decides', whole)
    .option('--hnsw-m <n>', 'links of a point in the graph (default: HNSW_M of the service)', whole)
    .option(
      '--hnsw-ef-construction <n>',
      'breadth of the search for the links of a new point (default: HNSW_EF_CONSTRUCTION of the service)',
      whole,
    )
    .action(async (name: string, options: CreateOptions) =>
      (await actions()).createCollection(name, options, environment),
    )
  add('delete <name>', 'delete a collection with all its points and aliases')
    .option('--yes', 'confirm the deletion')
    .action(async (name: string, options: DeleteOptions) =>
      (await actions()).deleteCollection(name, options, environment),
    )
  add('alias <alias> <name>', 'make an alias refer to a collection; moves an existing alias').action(
    async (alias: string, name: string, options: ConnectionOptions) =>
      (await actions()).setAlias(alias, name, options, environment),
  )
  add('unalias <alias>', 'remove an alias, but not its collection').action(
    async (alias: string, options: ConnectionOptions) =>
      (await actions()).removeAlias(alias, options, environment),
  )
}

const examples = `
Examples:
  vicinal collections create glosses-2 --dimension 512
  vicinal import glosses.jsonl --collection glosses-2
  vicinal collections alias glosses glosses-2
  vicinal query --collection glosses --like 3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94
  vicinal collections delete glosses-1 --yes

A name is ${collectionNameRule}. The collection \`default\` always exists.
`
