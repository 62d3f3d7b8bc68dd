import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { DatabaseError } from '../base/errors.ts'
import { metrics } from '../base/point.ts'
import { ConfigError, defaultText, readConfig, type SettingName, settings } from '../config.ts'
import { addConnectionOptions } from './connection.ts'
import { type ImportOptions, importFile } from './import.ts'
import { deletePoint, getPoint, type QueryOptions, query } from './query.ts'
import { serve } from './serve.ts'
import { showStats } from './stats.ts'
import { type Environment, UsageError } from './usage.ts'

/** Runs one command line and sets the exit code: 0 done, 1 failed, 2 called wrongly. */
export async function runProgram(argv: readonly string[], environment: Environment): Promise<void> {
  try {
    await createProgram(environment).parseAsync([...argv])
  } catch (error) {
    process.exitCode = report(error)
  }
}

function createProgram(environment: Environment): Command {
  const program = new Command('vicinal')
    .description('A vector database service you install in a minute and trust with your data.')
    .version(version(), '-V, --version')
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .addHelpText('after', examples)
  addServe(program, environment)
  addImport(program, environment)
  addQuery(program, environment)
  addConnectionOptions(program.command('get <id>').description('print a point as JSON')).action(
    (id, options) => getPoint(id, options, environment),
  )
  addConnectionOptions(program.command('delete <id>').description('delete a point')).action((id, options) =>
    deletePoint(id, options, environment),
  )
  program
    .command('stats')
    .description('figures of a running service, over HTTP')
    .option('--http <url>', 'address of the service', 'http://127.0.0.1:3000')
    .option('--api-key <key>', 'key of a service with HTTP_API_KEY')
    .option('--json', 'print JSON')
    .action((options) => showStats(options, environment))
  for (const command of program.commands) command.exitOverride()
  return program
}

function addServe(program: Command, environment: Environment): void {
  const command = program
    .command('serve', { isDefault: true })
    .description('run the service in the foreground (the default command)')
  for (const row of Object.values(settings)) {
    const description = `${row.doc} (env: ${row.env}, default: ${defaultText(row)})`
    command.addOption(new Option(`--${row.flag} <${row.placeholder}>`, description))
  }
  command.action(async (options: Readonly<Record<string, string>>) => {
    const names = Object.keys(settings) as SettingName[]
    const given = names.filter((name) => options[optionName(settings[name].flag)] !== undefined)
    const flags = Object.fromEntries(given.map((name) => [name, options[optionName(settings[name].flag)]!]))
    await serve(readConfig(environment, flags))
  })
}

function addImport(program: Command, environment: Environment): void {
  addConnectionOptions(program.command('import <file>'))
    .description(
      'store points from a file: JSON lines, .fvecs, or raw rows; - reads JSON lines from standard input',
    )
    .addOption(
      new Option('--format <format>', 'how the file is written; by its ending when not given').choices([
        'jsonl',
        'fvecs',
        'f32',
        'i8',
      ]),
    )
    .option('--dimension <n>', 'components of a raw row', whole)
    .option('--scale <factor>', 'what raw components are multiplied with', Number, 1)
    .option('--normalize', 'scale every vector to length 1')
    .option('--texts <file>', 'contents of raw rows: JSON lines with `text` or `content`, or plain lines')
    .option('--batch-size <n>', 'points a request', whole, 1000)
    .option('--concurrency <n>', 'requests under way at once', whole, 4)
    .option('--ids <file>', 'write the new ids there, in input order')
    .option('--journal <file>', 'where to keep how far the import is; beside the file by default')
    .option('--skip-invalid', 'count and report bad lines instead of stopping')
    .action((file: string, options: ImportOptions) => importFile(file, options, environment))
}

function addQuery(program: Command, environment: Environment): void {
  addConnectionOptions(program.command('query'))
    .description('find the nearest points')
    .option('--vector <json>', 'the query as a JSON array')
    .option('--vector-file <file>', 'a file with a JSON array, or with an object that has a `vector`')
    .option('--like <id>', 'the vector of a stored point')
    .addOption(
      new Option('--metric <name>', 'how distance is measured').choices([...metrics]).default('Cosine'),
    )
    .option('--limit <n>', 'the most results', whole, 10)
    .option('--ef <n>', 'search breadth; the server decides when not given', whole)
    .option('--json', 'print JSON')
    .action((options: QueryOptions) => query(options, environment))
}

const examples = `
Examples:
  vicinal                                             serve with the settings of the environment
  vicinal serve --data-dir /var/lib/vicinal --dimension 512
  vicinal import glosses.jsonl
  vicinal import base.i8 --format i8 --dimension 512 --scale 0.007874 --normalize --texts texts.jsonl
  vicinal query --like 3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94 --limit 5
  vicinal stats
`

function whole(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new UsageError(`${text} is not a whole number of at least 1`)
  return Number(text)
}

/** Commander's name for a flag's value. */
function optionName(flag: string): string {
  return flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** Says what went wrong, in a line or two; a stack only where the fault is ours. Gives the exit code. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  const isUsage = error instanceof UsageError || error instanceof ConfigError
  const isOurs = error instanceof TypeError || error instanceof RangeError
  const text = isOurs ? error.stack : error instanceof Error ? error.message : String(error)
  const reason = error instanceof DatabaseError ? ` (${error.reason})` : ''
  console.error(`vicinal: ${text}${reason}`)
  return isUsage ? 2 : 1
}
