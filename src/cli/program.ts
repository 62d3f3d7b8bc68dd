import { Command, CommanderError, Option } from 'commander'
import { roles } from '../base/api-key.ts'
import { DatabaseError } from '../base/errors.ts'
import { distanceMetrics } from '../base/point.ts'
import { version } from '../base/runtime.ts'
import { ConfigError, limits, readConfig, settingSources } from '../config.ts'
import { formats } from '../import/file.ts'
import { defaultText, type Setting } from '../settings/kinds.ts'
import { settingRows, settings } from '../settings/table.ts'
import {
  type Environment,
  fileFault,
  finite,
  Interrupted,
  keepOf,
  names,
  separator,
  sizeOf,
  timeOf,
  UsageError,
  whole,
  wholeOrNone,
} from './arguments.ts'
import type { AuditOptions } from './audit.ts'
import type { BackupChoice, BackupOptions } from './backup.ts'
import { addCluster } from './cluster.ts'
import { addCollections } from './collections.ts'
import {
  addCollectionOption,
  addConnectionOptions,
  addHttpOptions,
  type ConnectionOptions,
  keyOrigin,
} from './connection.ts'
import type { EvaluateOptions } from './evaluate.ts'
import type { ExportOptions } from './export.ts'
import type { ImportOptions } from './import.ts'
import type { FileOptions, NewKeyOptions } from './keys.ts'
import type { McpOptions } from './mcp.ts'
import { addPoints, addPointsOptions, filterHelp, type QueryOptions } from './points.ts'
import type { SourceOptions } from './snapshot.ts'

/**
 * Runs one command line. Returns the exit code: 0 done, 1 failed, 2 usage error, 130 and 143 stopped by a signal.
 *
 * @param args without the program and its script
 */
export async function runProgram(args: readonly string[], environment: Environment): Promise<number> {
  const program = createProgram(environment)
  let options: ConnectionOptions = {}
  program.hook('preAction', (_, command) => {
    options = command.opts()
  })
  try {
    await program.parseAsync(withCommand(args), { from: 'user' })
    return 0
  } catch (error) {
    return report(error, () => keyOrigin(options, environment))
  }
}

/**
 * Adds `serve` to a command line without a command. As commander's default command, `serve` would also get mistyped
 * commands, and commander would not suggest the right one.
 */
function withCommand(args: readonly string[]): readonly string[] {
  const [first] = args
  const isOptionOfServe = first?.startsWith('-') && !['-h', '--help', '-V', '--version'].includes(first)
  return first === undefined || isOptionOfServe ? ['serve', ...args] : args
}

/** Creates the commands. Each loads its code when it runs, so that help does not load a database. */
function createProgram(environment: Environment): Command {
  const program = new Command('vicinal')
    .description('A vector database service you install in a minute and trust with your data.')
    .version(version(), '-V, --version')
    .usage('[command] [options]')
    .addHelpText('after', helpBelow)
  addServe(program, environment)
  addImport(program, environment)
  addExport(program, environment)
  addQuery(program, environment)
  addEvaluate(program, environment)
  addPoints(program, environment)
  addCollections(program, environment)
  addBackup(program, environment)
  addSnapshot(program, environment)
  addCollectionOption(addHttpOptions(program.command('stats')))
    .summary('print figures of a running service')
    .description(
      'print figures of a running service, over HTTP; with --collection, also those of a collection',
    )
    .option('--json', 'print JSON')
    .action(async (options) => (await import('./stats.ts')).showStats(options, environment))
  addPointsOptions(program.command('mcp'))
    .summary('serve the points to language models')
    .description('serve the points to language models, over the Model Context Protocol')
    .option('--write', 'add tools that store and delete points')
    .option(
      '--port <n>',
      'use Streamable HTTP on this port of 127.0.0.1 in place of standard input and output',
      wholeOrNone,
    )
    .action(async (options: McpOptions) =>
      (await import('./mcp.ts').catch(explainMcp)).serveMcp(options, environment),
    )
  program
    .command('size')
    .summary('print what points take, and whether they fit')
    .description('print the memory and disk that points take, and the settings with which they fit')
    .argument('<sizes...>', 'points x components, like 10M x 768')
    .option('--memory <size>', 'memory of the machine, like 24G', sizeOf)
    .option('--links <n>', "the m of the collection's graph", whole, limits.hnswM)
    .option('--content-bytes <n>', 'bytes of content and attributes of a point', wholeOrNone, 600)
    .option('--json', 'print JSON')
    .action(async (words, options) =>
      (await import('./size.ts')).showSize(words, { ...options, ...readConfig(environment, {}) }),
    )
  program
    .command('tls')
    .summary('make a certificate to try TLS with')
    .description('make certificates')
    .command('self-signed')
    .summary('make a certificate to try TLS with')
    .description('make a key and a certificate that it signs itself, in a directory for CERTS_DIR')
    .argument('<directory>')
    .option('--name <names...>', 'host names and addresses by which clients call the service', [
      'localhost',
      '127.0.0.1',
      '::1',
    ])
    .option('--days <n>', 'how long it is valid', whole, 365)
    .option('--force', 'replace those that there are')
    .action(async (directory, options) => (await import('./tls.ts')).writeSelfSigned(directory, options))
  program
    .command('doctor')
    .summary('check all data of a stopped service')
    .description('check every checksum, id and link of the stored data; the service must not be running')
    .addOption(optionOf(settings.dataDir))
    .option(
      '--repair',
      'set damaged points aside in a file in the data directory, so that the rest can be served',
    )
    .option('--json', 'print JSON')
    .action(async ({ dataDir, ...options }) =>
      (await import('./doctor.ts')).examineDataDirectory(readConfig(environment, { dataDir }), options),
    )
  addKeys(program, environment)
  addAudit(program, environment)
  addCluster(program, environment)
  // One screen: every command has the options -h and --help.
  program.configureHelp({
    visibleOptions: () => [],
    visibleCommands: ({ commands }) => [...commands],
    subcommandTerm: (command) =>
      `${command.name()} ${command.usage().replace(/\[(options|command)\] ?/g, '')}`,
  })
  for (const command of withSubcommands(program)) {
    command.exitOverride().showHelpAfterError(`(see ${commandLine(command)} --help)`)
  }
  return program
}

/** The packages of `mcp` are peer dependencies, because they would be a fifth of what everybody installs. */
function explainMcp(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  const packages = '@modelcontextprotocol/server@2 @modelcontextprotocol/node@2 zod@4'
  throw new UsageError(
    `mcp needs packages that are not installed with vicinal; install them beside it: npm install ${packages}`,
  )
}

function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)]
}

function commandLine(command: Command): string {
  return command.parent === null ? command.name() : `${commandLine(command.parent)} ${command.name()}`
}

function addKeys(program: Command, environment: Environment): void {
  const keys = program
    .command('keys')
    .summary('create, list and revoke API keys')
    .description('change the file that API_KEYS_FILE names; a running service reads it again within a second')
  addFileOption(keys.command('create <name>'))
    .description('add a key with this name; prints the key, of which the file has only the hash')
    .addOption(new Option('--role <role>', 'what it may do').choices([...roles]).default('read'))
    .option('--collections <names>', 'only these, separated by commas; "docs-*" for beginnings', names)
    .option('--filter <json>', 'only points that match, like {"tenant": "acme"}')
    .option('--expires-at <time>', 'until then, like 2030-01-01T00:00:00Z')
    .option('--requests-per-second <n>', 'at most so many; as many may come at once', whole)
    .option('--searches-in-flight <n>', 'at most so many at the same time', whole)
    .option('--max-points <n>', 'at most so many points match the filter, in each collection', whole)
    .action(async (name: string, options: NewKeyOptions) =>
      (await import('./keys.ts')).createKey(name, options, environment),
    )
  addFileOption(keys.command('list'))
    .description('print the names of the keys, and what they may do')
    .action(async (options: FileOptions) => (await import('./keys.ts')).listKeys(options, environment))
  addFileOption(keys.command('revoke <name>'))
    .description('remove the key with this name')
    .action(async (name: string, options: FileOptions) =>
      (await import('./keys.ts')).revokeKey(name, options, environment),
    )
}

function addAudit(program: Command, environment: Environment): void {
  addConnectionOptions(program.command('audit'))
    .summary('print what callers have done')
    .description(
      'print what callers have done, the newest call first; the service needs AUDIT, the key the role admin',
    )
    .option('--since <time>', 'from this time on, like 2030-01-01T00:00:00Z', timeOf)
    .option('--until <time>', 'before this time', timeOf)
    .option('--key <name>', 'by callers with the key of this name')
    .option('--operation <name>', 'like PutPoint')
    .option('--collection <name>', 'on this collection')
    .option('--refused', 'only calls that were not allowed')
    .option('--limit <n>', 'the most calls', whole, 100)
    .option('--json', 'print JSON lines')
    .action(async (options: AuditOptions) => (await import('./audit.ts')).showAudit(options, environment))
}

function addFileOption(command: Command): Command {
  return command.option('--file <file>', 'the file of keys (env: API_KEYS_FILE)')
}

function addServe(program: Command, environment: Environment): void {
  const command = program
    .command('serve')
    .description('run the service in the foreground (the default command)')
  for (const [, row] of settingRows) command.addOption(optionOf(row).helpGroup(`${row.group}:`))
  command.action(async (options: Readonly<Record<string, string>>) => {
    const flags = Object.fromEntries(
      settingRows.flatMap(([name, { flag }]) => {
        const text = options[optionName(flag)]
        return text === undefined ? [] : [[name, text]]
      }),
    )
    const config = readConfig(environment, flags)
    const sources = settingSources(environment, flags)
    await (await import('./serve.ts')).serve(config, sources, environment)
  })
}

/** The flag of a setting. A flag that is true or false can be given without a value, which means true. */
function optionOf(row: Setting<unknown>): Option {
  const description = `${row.doc} (env: ${row.env}, default: ${defaultText(row)})`
  if (typeof row.default !== 'boolean') return new Option(`--${row.flag} <${row.placeholder}>`, description)
  return new Option(`--${row.flag} [${row.placeholder}]`, description).preset('true')
}

function addRowOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--format <format>', 'format of the file (default: by its ending)').choices(formats),
    )
    .option(
      '--separator <char>',
      'what separates the fields of a CSV file (default: the first row tells)',
      separator,
    )
    .option('--dimension <n>', 'components per raw row', whole)
    .option('--scale <factor>', 'factor by which components are multiplied', finite)
    .option('--normalize', 'scale every vector to length 1')
    .option('--vector-column <name>', 'the column with vectors (default: vector or embedding)')
    .addOption(
      new Option(
        '--vector-prefix <prefix>',
        'vectors are in columns named by this prefix and a number',
      ).conflicts('vectorColumn'),
    )
}

function addImport(program: Command, environment: Environment): void {
  const command = addPointsOptions(program.command('import <file>'))
    .summary('store points from a file: JSON lines, CSV, Parquet, ...')
    .description(
      'store points from a file: JSON lines, CSV, Parquet, .npy, .fvecs, or raw rows; - is standard input',
    )
  addRowOptions(command)
    .option(
      '--texts <file>',
      'contents of files with vectors only: plain lines, or JSON lines with `content` or `text`, and attributes',
    )
    .option('--content-column <name>', 'the column with contents (default: content or text)')
    .option('--id-column <name>', 'the column with ids, for --keep-ids (default: id)')
    .option(
      '--attribute-columns <names>',
      'columns to store as attributes, separated by commas; "" for none (default: all other columns)',
      names,
    )
    .option(
      '--text-columns <names>',
      'columns of a CSV file that are text, even if all their values look like numbers',
      names,
    )
    .option(
      '--embed',
      'also store records without a vector: the service embeds their contents, if it has embeddings',
    )
    .option(
      '--words-paths <paths>',
      'declare that these texts can be searched by words, like content,title=3',
      names,
    )
    .option(
      '--language <name>',
      'of these texts: auto, none or one like english (default: as before, or auto)',
    )
    .option('--batch-size <n>', 'points per request', whole, 1000)
    .option('--concurrency <n>', 'requests in progress at a time', whole, 4)
    .option('--ids <file>', 'write the new ids there, in input order')
    .option(
      '--keep-ids',
      'keep the ids of the file; an id that already exists is an error, which --skip-invalid skips',
    )
    .option('--journal <file>', 'file for the progress of the import (default: <file>.vicinal-import)')
    .option('--skip-invalid', 'count and report bad records instead of stopping')
    .option(
      '--strict',
      'a column that is not stored is an error; without it, the end of the import names them',
    )
    .option('--again', 'repeat an import that is finished')
    .option(
      '--resend-uncertain',
      'send batches again if it is no longer known whether they are stored: their points may then be stored twice',
    )
    .action(async (file: string, options: ImportOptions) =>
      (await import('./import.ts')).importFile(file, options, environment),
    )
    .addHelpText('after', importBelow)
}

function addQuery(program: Command, environment: Environment): void {
  const command = addPointsOptions(program.command('query'))
    .description('find the nearest points')
    .option('--vector <numbers>', 'the query vector, as a JSON array or as 1,2,3')
    .option('--vector-file <file>', 'a file with these numbers, or with a JSON object that has a `vector`')
    .option(
      '--row <n>',
      'use row n, counted from 0, of a --vector-file in a format that `import` reads',
      wholeOrNone,
    )
    .option(
      '--like <ids...>',
      'the vector of a stored point; with further ids, --unlike or a vector: near all of them',
    )
    .option('--unlike <ids...>', 'points to stay away from')
    .option('--text <text>', 'a text that the service embeds, if it has embeddings')
    .option(
      '--words [text]',
      'rank by these words, alone or together with one of the above; without a value, by those of --text',
    )
    .option('--balance <x>', 'what the vector counts beside the words, 0 to 1 (default: 0.5)', finite)
    .option('--statistics <json>', 'count how often words occur in the points that match this filter only')
    .option('--highlight', 'show where the words are in the texts')
    .option('--cursor [cursor]', 'print a page of a search by words: the first, or that of this cursor')
  addRowOptions(command)
    .addOption(
      new Option('--metric <name>', 'how distance is measured')
        .choices([...distanceMetrics])
        .default('Cosine'),
    )
    .option('--limit <n>', 'the most results', whole, 10)
    .option('--ef <n>', 'search breadth (default: the server decides)', whole)
    .option('--filter <json>', filterHelp)
    .option('--max-distance <x>', 'the greatest distance of a result', finite)
    .option('--exact', 'find the true nearest neighbours, however long it takes')
    .option('--boost <json...>', boostHelp)
    .option('--diversity <x>', diversityHelp, finite)
    .option('--group-by <path>', 'find groups of points with the same value; --limit is their number')
    .option('--group-size <n>', 'the most points of a group (default: 1)', whole)
    .option('--rerank <n>', rerankHelp, whole)
    .option('--skip-errors', 'answer without reranking if that endpoint fails')
    .option('--profile', 'print how the search was answered, to standard error')
    .option('--json', 'print one JSON object per line')
    .action(async (options: QueryOptions) => (await import('./points.ts')).query(options, environment))
    .addHelpText('after', queryBelow)
}

function addEvaluate(program: Command, environment: Environment): void {
  addPointsOptions(program.command('evaluate <judgements>'))
    .summary('measure how good search results are')
    .description(
      'measure how well searches agree with judgements: JSON lines like {"words": "..", "text": "..", "relevant": {"id": 1}}, with words, text, vector or two of them; - is standard input',
    )
    .option('-k, --k <n>', 'how many results of each query count', whole, 10)
    .option('--sweep <names>', 'what to vary, to find what is best: any of balance,ef,paths', names)
    .addOption(
      new Option('--metric <name>', 'how distance is measured')
        .choices([...distanceMetrics])
        .default('Cosine'),
    )
    .option('--balance <x>', 'what the vector counts beside the words, 0 to 1 (default: 0.5)', finite)
    .option('--ef <n>', 'search breadth (default: the server decides)', whole)
    .option('--filter <json>', filterHelp)
    .option('--boost <json...>', boostHelp)
    .option('--diversity <x>', diversityHelp, finite)
    .option('--rerank <n>', rerankHelp, whole)
    .option('--json', 'print JSON')
    .action(async (file: string, options: EvaluateOptions) =>
      (await import('./evaluate.ts')).evaluate(file, options, environment),
    )
}

const boostHelp =
  'raise scores: {"filter": {...}, "weight": 0.1} or {"recent": {"path": "at", "half_life": "14d"}, "weight": 0.2}'
const diversityHelp = 'how much results unlike those before them come first, 0 to 1'
const rerankHelp = 'how many of the best points the reranking endpoint of the server ranks anew'

function addBackup(program: Command, environment: Environment): void {
  const backup = addSourceOptions(addHttpOptions(program.command('backup <place>')))
    .summary('copy all collections to a directory or a bucket')
    .description(
      'copy all collections and aliases to a directory or to s3://bucket/prefix: first all points, later only what has changed. From then on, the service keeps its changes for the next backup, and `vicinal restore` restores any moment',
    )
    .option(
      '--keep <n|age>',
      'remove backups that are not needed for the newest n, or for an age like 30d',
      keepOf,
    )
    .option('--follow <seconds>', 'make another backup so often, until the command is stopped', whole)
    .option('--full', 'copy all points again')
    .option('--available', 'copy what the nodes of a cluster have now: the only way when its log is lost')
    .action(async (place: string, options: BackupOptions) =>
      (await import('./backup.ts')).backUp(place, options, environment),
    )
    .addHelpText('after', backupBelow)
  backup
    .command('list <place>')
    .description('print the backups, the oldest first, and which moments in between can be restored')
    .action(async (place: string) => (await import('./backup.ts')).listBackups(place, environment))
  addTimeOption(
    backup.command('verify <place>'),
    'the newest backup up to this time, like 2026-11-27T03:15:00Z',
  )
    .description(
      'restore a backup to a scratch directory, also from the one before and the changes since then, and compare every value',
    )
    .option('--scratch <directory>', "where to make it (default: the system's directory for temporary files)")
    .action(async (place: string, options: BackupChoice & { readonly scratch?: string }) =>
      (await import('./backup.ts')).verifyBackup(place, options, environment),
    )
  addTimeOption(
    program.command('restore <place>'),
    'the moment, like 2026-11-27T03:15:00Z: any since the oldest backup; in a cluster, the newest backup up to then',
  )
    .summary('create a data directory from a backup')
    .description('create a data directory from a backup; it must be new or empty')
    .addOption(optionOf(settings.dataDir).makeOptionMandatory())
    .action(async (place: string, options: BackupChoice & { readonly dataDir: string }) =>
      (await import('./backup.ts')).restore(place, options, environment),
    )
}

function addTimeOption(command: Command, what: string): Command {
  return command.option('--at <time>', what, timeOf)
}

function addSnapshot(program: Command, environment: Environment): void {
  const snapshot = program
    .command('snapshot')
    .summary('create, check and restore copies of a collection')
    .description('create, check and restore copies of one collection')
  addSourceOptions(addCollectionOption(addHttpOptions(snapshot.command('create <path>'))))
    .description(
      'copy all points of one collection at one sequence number to a file or into a directory; `vicinal backup` copies all collections',
    )
    .action(async (place: string, options: SourceOptions) =>
      (await import('./snapshot.ts')).createSnapshot(place, options, environment),
    )
  snapshot
    .command('verify <snapshot>')
    .description('check every byte of a snapshot')
    .action(async (file: string) => (await import('./snapshot.ts')).verifySnapshot(file))
  snapshot
    .command('restore <snapshot>')
    .description('create a data directory from a snapshot; it must be new or empty')
    .addOption(optionOf(settings.dataDir).makeOptionMandatory())
    .action(async (file: string, options: { dataDir: string }) =>
      (await import('./snapshot.ts')).restoreSnapshot(file, options),
    )
}

function addExport(program: Command, environment: Environment): void {
  addSourceOptions(addCollectionOption(addHttpOptions(program.command('export [file]'))))
    .summary('write all points of a collection to a file')
    .description(
      'write all points of a collection in a format that `import` reads: JSON lines or Parquet; without a file, to standard output',
    )
    .addOption(
      new Option('--format <format>', 'format of the file (default: by its ending)').choices([
        'jsonl',
        'parquet',
      ]),
    )
    .action(async (file: string | undefined, options: ExportOptions) =>
      (await import('./export.ts')).exportPoints(file, options, environment),
    )
}

function addSourceOptions(command: Command): Command {
  return command.option(
    '--data-dir <path>',
    'read this data directory instead; its service must not be running',
  )
}

const helpBelow = `
Example: vicinal query --text 'mend a bicycle' --filter '{"price": {"$lt": 10}}'

\`vicinal <command> --help\` explains a command; that of serve lists all settings.
Exit codes: 0 done, 1 failed, 2 usage error, 130 and 143 stopped by a signal.
`

const queryBelow = `
Examples:
  vicinal query --vector 0.1,0.7,0.2 --metric Euclidean
  vicinal query --like 3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94 --limit 5
  vicinal query --text 'how to mend a bicycle' --filter '{"price": {"$lt": 10}}'
  vicinal query --text 'how to mend a bicycle' --words --balance 0.3 --boost '{"filter": {"new": true}, "weight": 0.1}'
  vicinal query --words 'anadama bread' --highlight --group-by topic
`

const backupBelow = `
Examples:
  vicinal backup /var/backups/vicinal --keep 14
  vicinal backup s3://bucket/vicinal --follow 60 --keep 30d
  vicinal restore s3://bucket/vicinal --at 2026-11-27T03:15:00Z --data-dir /var/lib/vicinal/restored

A bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment. AWS_SESSION_TOKEN, AWS_REGION and
AWS_ENDPOINT_URL are read, too: any store with the protocol of S3 will do.
`

const importBelow = `
Examples:
  vicinal import glosses.jsonl --collection glosses
  vicinal import articles.parquet --vector-column embedding --content-column body
  vicinal import articles.csv --embed --content-column body
  vicinal import base.i8 --dimension 512 --normalize --texts texts.jsonl

JSON lines have a field, CSV (.csv, .tsv) and Parquet files a column for each of vector, content, content_type, attributes (a
map), expires_at, ttl_seconds and id; only vector and content are required, with --embed only content. All others become
attributes. All values of a CSV column decide its type: numbers, true or false, dates, or else text. What is not stored,
such as ids without --keep-ids, is counted and named at the end; --strict refuses it.
.npy files are two-dimensional, with one vector per row; contents come from --texts. docs/import.md has all rules.
An interrupted import (also by Ctrl-C) continues where it stopped if you run the same command again within a day: it keeps
a journal, and no point is stored twice or left out. After a bad record, correct it and run the command again. A finished
import leaves its journal, so that it is not repeated by mistake (--again).
With --collection, an alias is looked up once, at the start: all points go into one collection, even if the alias moves
during the import. An interrupted import does not continue if its alias has moved since.
`

/** Commander's name for a flag's value. */
function optionName(flag: string): string {
  return flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
}

/** Prints an error in one or two lines, with a stack only for a programming error. Returns the exit code. */
function report(error: unknown, originOfKey: () => string): number {
  // Commander has already printed it.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  const interruption = error instanceof Interrupted ? error.exitCode : undefined
  const isUsage = error instanceof UsageError || error instanceof ConfigError
  const isOurs = error instanceof TypeError || error instanceof RangeError
  const text = isOurs
    ? error.stack
    : error instanceof Error
      ? (fileFault(error) ?? error.message)
      : String(error)
  const isKey =
    error instanceof DatabaseError && error.reason === 'unauthenticated' && !error.message.includes('--user')
  const aboutKey = isKey ? ` (${originOfKey()}; use --api-key-file to name another)` : ''
  console.error(`vicinal: ${text}${aboutKey}`)
  return interruption ?? (isUsage ? 2 : 1)
}
