import type { Command } from 'commander'
import { collectionNameRule, type HnswSettings, type WordLanguageChoice } from '../base/collection.ts'
import type { Quotas } from '../base/quotas.ts'
import { inSnakeCase } from '../base/spelling.ts'
import type { CollectionInfo, Words } from '../client/client.ts'
import { aligned, type Environment, finite, UsageError, whole } from './arguments.ts'
import { addConnectionOptions, type ConnectionOptions, withClient } from './connection.ts'

interface ListOptions extends ConnectionOptions {
  readonly json?: boolean
}

interface CreateOptions extends ConnectionOptions {
  readonly dimension?: number
  readonly hnswM?: number
  readonly hnswEfConstruction?: number
  /** false: none. */
  readonly words?: readonly string[] | false
  readonly language?: WordLanguageChoice
  readonly k1?: number
  readonly b?: number
  readonly maxPoints?: number
  readonly maxBytes?: number
  readonly requestsPerSecond?: number
  readonly searchesInFlight?: number
  readonly quotas?: boolean
}

interface DeleteOptions extends ConnectionOptions {
  readonly yes?: boolean
}

/** Prints all collections, as a table or as one JSON object per line. */
async function listCollections(options: ListOptions, environment: Environment): Promise<void> {
  const collections = await withClient(options, environment, (client) => client.collections.list())
  const lines = options.json ? collections.map(jsonOf) : tableOf(collections)
  for (const line of lines) console.log(line)
}

async function createCollection(
  name: string,
  options: CreateOptions,
  environment: Environment,
): Promise<void> {
  const { dimension, hnswM: m, hnswEfConstruction: efConstruction } = options
  const hnsw: HnswSettings = { m, efConstruction }
  const { created } = await withClient(options, environment, (client) =>
    client.collections.put(name, {
      dimension,
      hnsw,
      ...wordsIn(options),
      ...quotasIn(options),
    }),
  )
  console.log(created ? `created ${name}` : `${name} already exists with these settings`)
}

/** The words of the options; nothing if they have none. */
function wordsIn({ words, ...parameters }: CreateOptions): { readonly words?: Words | null } {
  if (words) return { words: wordsOf(words, '--words', parameters) }
  const given = (['language', 'k1', 'b'] as const).find((name) => parameters[name] !== undefined)
  if (given !== undefined) throw new UsageError(`--${given} needs --words`)
  return words === false ? { words: null } : {}
}

/** The quotas of the options; nothing if they have none. */
function quotasIn(options: CreateOptions): { readonly quotas?: Quotas } {
  const { maxPoints: points, maxBytes: bytes, requestsPerSecond, searchesInFlight, quotas } = options
  const given = Object.entries({ points, bytes, requestsPerSecond, searchesInFlight }).filter(
    ([, value]) => value !== undefined,
  )
  if (given.length === 0) return quotas === false ? { quotas: {} } : {}
  if (quotas === false) throw new UsageError('--no-quotas excludes options that set quotas')
  return { quotas: Object.fromEntries(given) }
}

/** Reads paths with their weights, like `title=3`. */
export function wordsOf(
  words: readonly string[],
  option: string,
  { language, k1, b }: Omit<Words, 'paths'> = {},
): Words {
  const paths = words.map((text): readonly [string, number] => {
    const [, path = '', weight = '1'] = /^(.*?)(?:=([^=]*))?$/.exec(text)!
    if (path === '' || !(Number(weight) > 0)) {
      throw new UsageError(`${option} ${text}: a path and perhaps a weight above 0, like title=3`)
    }
    return [path, Number(weight)]
  })
  return {
    paths: Object.fromEntries(paths),
    ...(language && { language }),
    ...(k1 === undefined ? {} : { k1 }),
    ...(b === undefined ? {} : { b }),
  }
}

/** Deletes a collection. @throws UsageError without `yes`, because the points cannot be restored */
async function deleteCollection(
  name: string,
  options: DeleteOptions,
  environment: Environment,
): Promise<void> {
  if (!options.yes) {
    throw new UsageError(`this would delete the collection ${name} with all its points: confirm with --yes`)
  }
  await withClient(options, environment, (client) => client.collections.delete(name))
  console.log(`deleted ${name}`)
}

async function setAlias(
  alias: string,
  name: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, (client) =>
    client.collections.setAliases({ set: { [alias]: name } }),
  )
  console.log(`${alias} refers to ${name}`)
}

async function removeAlias(
  alias: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, (client) => client.collections.setAliases({ remove: [alias] }))
  console.log(`removed ${alias}`)
}

/** Formats a collection with the names of the HTTP interface. */
function jsonOf({ hnsw, quotas, ...rest }: CollectionInfo): string {
  const bounded = quotas && { quotas: inSnakeCase({ ...quotas }) }
  return JSON.stringify({ ...rest, hnsw: { m: hnsw.m, ef_construction: hnsw.efConstruction }, ...bounded })
}

function tableOf(collections: readonly CollectionInfo[]): string[] {
  return aligned([
    ['name', 'points', 'dimension', 'm', 'ef_construction', 'aliases'],
    ...collections.map(({ name, points, dimension, hnsw, aliases }) => [
      name,
      String(points),
      dimension === undefined ? '-' : String(dimension),
      String(hnsw.m),
      String(hnsw.efConstruction),
      aliases.join(', '),
    ]),
  ])
}

/** Adds `vicinal collections` with its subcommands. */
export function addCollections(program: Command, environment: Environment): void {
  const collections = program
    .command('collections')
    .description('list, create and delete collections and aliases')
    .addHelpText('after', examples)
  const add = (usage: string, description: string): Command =>
    addConnectionOptions(collections.command(usage).description(description))
  add('list', 'print all collections, with their points, settings and aliases')
    .option('--json', 'print one JSON object per line')
    .action((options) => listCollections(options, environment))
  add(
    'create <name>',
    'create a collection, or change its words or quotas; does nothing if it has these settings',
  )
    .option('--dimension <n>', 'components of every vector; by default the first insert decides', whole)
    .option('--hnsw-m <n>', 'links of a point in the graph (default: 16)', whole)
    .option(
      '--hnsw-ef-construction <n>',
      'breadth of the search for the links of a new point (default: 128)',
      whole,
    )
    .option('--words <path=weight...>', 'texts to search by words: content, or paths of attributes')
    .option('--language <name>', 'auto, none or a language like english (default: auto)')
    .option('--k1 <x>', 'how much a word counts that occurs again, 0 to 10 (default: 1.2)', finite)
    .option('--b <x>', 'how much less words of long texts count, 0 to 1 (default: 0.75)', finite)
    .option('--no-words', 'end searches by words')
    .option(
      '--max-points <n>',
      'refuse more points; the options below are quotas, too, and set together',
      whole,
    )
    .option('--max-bytes <n>', 'refuse inserts while it takes more memory', whole)
    .option('--requests-per-second <n>', 'at most so many; as many may come at once', whole)
    .option('--searches-in-flight <n>', 'at most so many at the same time', whole)
    .option('--no-quotas', 'remove its quotas')
    .action((name, options) => createCollection(name, options, environment))
  add('delete <name>', 'delete a collection with all its points and aliases')
    .option('--yes', 'confirm the deletion')
    .action((name, options) => deleteCollection(name, options, environment))
  add('alias <alias> <name>', 'make an alias refer to a collection; moves an existing alias').action(
    (alias, name, options) => setAlias(alias, name, options, environment),
  )
  add('unalias <alias>', 'remove an alias, but not its collection').action((alias, options) =>
    removeAlias(alias, options, environment),
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
