import { type Command, Option } from 'commander'
import { contentTypes } from '../base/point.ts'
import { whole, wholeOrNone } from './arguments.ts'
import { addCollectionOption, addConnectionOptions } from './connection.ts'
import type {
  CountOptions,
  DeleteOptions,
  FacetsOptions,
  GetOptions,
  ListOptions,
  PutOptions,
  SetOptions,
  UpdateOptions,
} from './points.ts'
import type { Environment } from './usage.ts'

/** Adds the commands on points. Their code is loaded when one runs. */
export function addPoints(program: Command, environment: Environment): void {
  const add = (usage: string, description: string): Command =>
    addPointsOptions(program.command(usage).description(description))
  const actions = (): Promise<typeof import('./points.ts')> => import('./points.ts')

  add('get <id>', 'print a point as JSON')
    .option('--with-version', 'also print its version')
    .action(async (id: string, options: GetOptions) => (await actions()).getPoint(id, options, environment))
  add('put <id>', 'store a point with this id')
    .addOption(new Option('--vector <numbers>', 'its vector, as a JSON array or as 1,2,3').conflicts('text'))
    .option('--text <text>', textHelp)
    .requiredOption('--content <text>', 'its content')
    .addOption(
      new Option('--content-type <type>', 'the kind of its content').choices(contentTypes).default('Text'),
    )
    .option('--attributes <json>', 'its attributes, as a JSON object')
    .option('--expires-at <time>', expiryHelp)
    .option('--if-version <n>', 'only if it has this version', wholeOrNone)
    .option('--if-absent', 'only if there is no point with this id')
    .action(async (id: string, options: PutOptions) => (await actions()).putPoint(id, options, environment))
  addChange(add('set <id>', 'change attributes, content or expiry of a point'))
    .option('--content <text>', 'its new content')
    .option('--text <text>', 'a text that the service embeds for its new vector')
    .option('--if-version <n>', 'only if it has this version', wholeOrNone)
    .action(async (id: string, options: SetOptions) => (await actions()).setPoint(id, options, environment))
  add('list', 'print points as JSON, in the order of insertion')
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'the most points (default: all)', whole)
    .option('--vectors', 'also print their vectors')
    .action(async (options: ListOptions) => (await actions()).listPoints(options, environment))
  add('count', 'print how many points match')
    .option('--filter <json>', filterHelp)
    .action(async (options: CountOptions) => (await actions()).countPoints(options, environment))
  add('facets <paths...>', 'print the most frequent values at these paths')
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'values per path', whole, 10)
    .option('--json', 'print JSON')
    .action(async (paths: string[], options: FacetsOptions) =>
      (await actions()).countFacets(paths, options, environment),
    )
  addSelection(addChange(add('update', 'change all points that match'))).action(
    async (options: UpdateOptions) => (await actions()).updatePoints(options, environment),
  )
  addSelection(add('delete [id]', 'delete a point, or all points that match')).action(
    async (id: string | undefined, options: DeleteOptions) =>
      (await actions()).deletePoints(id, options, environment),
  )
}

/** Adds the options that choose the service and the collection. */
export function addPointsOptions(command: Command): Command {
  return addCollectionOption(addConnectionOptions(command))
}

/** Adds the options of a change. */
function addChange(command: Command): Command {
  return command
    .option('--set <json>', 'attributes to set by path, like {"price": 5, "size.width": 3}')
    .option('--unset <path...>', 'attributes to remove')
    .option('--expires-at <time>', expiryHelp)
}

/** Adds the options that select the points to change. */
function addSelection(command: Command): Command {
  return command
    .option('--filter <json>', filterHelp)
    .option('--limit <n>', 'the most points to change', whole)
    .option('--dry-run', 'only count them')
    .option('--everything', 'confirm a filter that matches every point, like {}')
}

export const filterHelp = 'a filter, like {"price": {"$lt": 10}}'
const textHelp =
  'a text that the service embeds in place of a vector (default: the content, if the service has embeddings)'
const expiryHelp = 'when it expires, like 2026-12-01T00:00:00Z; `never` for no expiry'
