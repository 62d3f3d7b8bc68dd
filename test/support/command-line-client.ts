import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jsonNumbers } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { Patch, Payload, Precondition } from '../../src/base/point.ts'
import { fieldsJson, type HitAnswer, hitOf } from '../../src/client/http-call.ts'
import { attributeJson, dateOf, dateText } from '../../src/client/values.ts'
import { clientFilterOf } from './client-filter.ts'
import {
  clientPointOf,
  type ModelClient,
  type ModelHit,
  type ModelNewPoint,
  type ModelQuery,
  payloadOf,
} from './model-client.ts'
import { run } from './process.ts'

/** What the command line lacks fails with this error. A test names it instead of leaving it out silently. */
export class NoSuchCommand extends Error {}

/** The operations as commands of `vicinal`, each with a line of arguments, an exit code and printed text. */
export function commandLineClient(connection: readonly string[], directory: string): ModelClient {
  let files = 0
  const vicinal = async (...args: readonly (string | readonly string[])[]): Promise<string> => {
    const { code, stdout, stderr } = await run([...args.flat(), ...connection])
    if (code !== 0) throw new Error(stderr.trim())
    return stdout
  }
  const lines = async (...args: readonly (string | readonly string[])[]): Promise<ModelHit[]> =>
    (await vicinal(...args))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => hitIn(JSON.parse(line)))

  const insertBatch = async (points: readonly ModelNewPoint[]): Promise<readonly string[]> => {
    files += 1
    const file = join(directory, `${files}.jsonl`)
    writeFileSync(file, points.map(recordOf).join(''))
    await vicinal('import', file, '--keep-ids', '--ids', `${file}.ids`)
    return (await readFile(`${file}.ids`, 'utf8')).trimEnd().split('\n')
  }
  const search = async ({ vector, metric, ...query }: ModelQuery): Promise<ModelHit[]> => {
    if (typeof vector === 'string') throw new NoSuchCommand('--like also finds the point itself')
    const { limit, ef, exact, maxDistance, filter } = query
    const options = [
      ...['--metric', metric, '--limit', String(limit), '--json'],
      ...option('--ef', ef),
      ...option('--max-distance', maxDistance),
      ...(exact ? ['--exact'] : []),
    ]
    return await lines('query', '--vector', numbers(vector), options, filterOption(filter))
  }

  return {
    insert: async (point) => (await insertBatch([point]))[0]!,
    insertBatch,
    async insertEach() {
      throw new NoSuchCommand('--skip-invalid reports the points as text')
    },
    async put(id, { vector, payload }, when) {
      const { contentType, content, attributes, expiresAt } = clientPointOf({ vector, payload }).payload
      const printed = await vicinal(
        ...['put', id, '--vector', numbers(vector), '--content', content, '--content-type', contentType],
        option('--attributes', attributes && JSON.stringify(attributeJson(attributes))),
        option('--expires-at', expiresAt && dateText(expiresAt)),
        whenOptions(when),
      )
      const [, outcome, version] = /^(created|replaced), version (\d+)\n$/.exec(printed)!
      return { version: Number(version), created: outcome === 'created' }
    },
    async patch(id, patch, when) {
      const printed = await vicinal('set', id, changeOptions(patch), whenOptions(when))
      return { version: Number(/^version (\d+)\n$/.exec(printed)![1]) }
    },
    async get(id) {
      const [point] = await lines('get', id, '--with-version')
      return point as Awaited<ReturnType<ModelClient['get']>>
    },
    async delete(id) {
      await vicinal('delete', id)
    },
    search: async (query) => (await search(query)).map(({ id }) => id),
    async searchBatch() {
      throw new NoSuchCommand('query has one vector')
    },
    async searchHits(query, { distance, payload, ...others }) {
      if (!distance || !payload || Object.keys(others).length > 0)
        throw new NoSuchCommand('query prints distance and payload')
      return await search(query)
    },
    listAll: (filter) => lines('list', '--vectors', filterOption(filter)),
    count: async (filter) => Number(await vicinal('count', filterOption(filter))),
    async facets(filter, paths) {
      const found = JSON.parse(await vicinal('facets', paths, '--json', filterOption(filter)))
      return new Map(Object.entries(found))
    },
    async evaluate({ judgements, k, sweep, metric, ef }) {
      files += 1
      const file = join(directory, `${files}.judgements`)
      writeFileSync(file, judgements.map((judgement) => JSON.stringify(judgement)).join('\n'))
      const options = [option('--k', k), option('--sweep', sweep?.join(',')), option('--metric', metric)]
      return JSON.parse(await vicinal('evaluate', file, '--json', ...options, option('--ef', ef)))
    },
    async changeByFilter({ filter, change, limit, dryRun }) {
      const printed = await vicinal(
        ...(change === 'delete' ? ['delete'] : ['update', ...changeOptions(change)]),
        filterOption(filter),
        option('--limit', limit),
        dryRun ? '--dry-run' : [],
        '--everything',
      )
      return { changed: Number.parseInt(printed, 10), more: false }
    },
    async close() {},
  }
}

/** A line of a file to import. */
function recordOf(point: ModelNewPoint): string {
  if (point.onConflict !== undefined) throw new NoSuchCommand('import replaces no points')
  const { vector, id, payload } = clientPointOf(point)
  return `{"vector":${numbers(vector!)},${JSON.stringify({ id, ...fieldsJson(payload) }).slice(1)}\n`
}

function hitIn(answer: HitAnswer): ModelHit {
  const { payload, ...hit } = hitOf(answer)
  return payload === undefined ? hit : { ...hit, payload: payloadOf(payload) as Payload }
}

function option(name: string, value: string | number | undefined): readonly string[] {
  return value === undefined ? [] : [name, String(value)]
}

function filterOption(filter: Filter | undefined): readonly string[] {
  return option('--filter', filter && JSON.stringify(attributeJson(clientFilterOf(filter) as never)))
}

function whenOptions(when: Precondition | undefined): readonly string[] {
  if (when?.kind === 'filter') throw new NoSuchCommand('--if-version and --if-absent are the conditions')
  if (when === undefined) return []
  return when.kind === 'absent' ? ['--if-absent'] : ['--if-version', String(when.version)]
}

function changeOptions({ set, unset = [], content, vector, expiresAtUs }: Patch): readonly string[] {
  if (vector !== undefined) throw new NoSuchCommand('set changes no vector')
  const expiresAt = expiresAtUs === null ? 'never' : expiresAtUs && dateText(dateOf(expiresAtUs))
  return [
    ...option('--set', set && JSON.stringify(attributeJson(set as never))),
    ...(unset.length === 0 ? [] : ['--unset', ...unset]),
    ...option('--content', content),
    ...option('--expires-at', expiresAt),
  ]
}

function numbers(vector: ArrayLike<number>): string {
  return jsonNumbers(Float64Array.from(vector))
}
