import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type OperationName, operations } from '../src/api/operations.ts'
import { type Attributes, DateTime, GeoPoint } from '../src/base/attributes.ts'
import type { Reason } from '../src/base/errors.ts'
import type { Filter } from '../src/base/filter.ts'
import { readAttributes } from '../src/messages/json-attributes.ts'
import { readFilter } from '../src/messages/json-filter.ts'
import { JsonValue } from '../src/messages/json-reader.ts'
import { NoSuchCommand } from './support/command-line-client.ts'
import type { ModelClient, ModelNewPoint } from './support/model-client.ts'
import { type Subject, type SubjectName, subjects } from './support/model-subjects.ts'

/**
 * What each operation on points does, whichever way it is called: one table, run through every interface. Each row
 * begins with the points that it is given. It says what the operation answers or how it is refused, and what it leaves.
 */

interface Row {
  readonly operation: OperationName
  readonly does: string
  /** Stored before, in this order; by default a, b and c. */
  readonly given?: readonly ModelNewPoint[]
  /** Calls the operation. `versions` has those of the given points, by content. */
  call(client: ModelClient, versions: Readonly<Record<string, number>>): Promise<unknown>
  readonly answers?: unknown
  /** `VERSION` is that of the given point b. The command line prints the message among its own words, or `printed`. */
  readonly refuses?: { readonly reason: Reason; readonly message: string; readonly printed?: string }
  /** The contents of all points afterwards, in the order of their insertion; absent: those given. */
  readonly leaves?: readonly string[]
  /** The interfaces that cannot express the call. They must say so. */
  readonly notBy?: readonly SubjectName[]
}

const id = (letter: string): string => `${letter.repeat(8)}-0000-4000-8000-000000000000`
const [idA, idB, idC, idD, idE] = ['a', 'b', 'c', 'd', 'e'].map(id) as [
  string,
  string,
  string,
  string,
  string,
]

function where(filter: object): Filter {
  const steps = readFilter(new JsonValue(filter), 'filter')
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

function attributes(json: object): Attributes {
  return readAttributes(new JsonValue(json), 'attributes')!
}

/** A point without an id. */
function content(text: string, vector: readonly number[] = [0, 0], more: object = {}): ModelNewPoint {
  return { vector: Float32Array.from(vector), payload: { contentType: 'Text', content: text, ...more } }
}

/** The point that has this letter as its content and in its id. */
function point(letter: string, vector: readonly number[] = [0, 0], json?: object): ModelNewPoint {
  const own = json === undefined ? {} : { attributes: attributes(json) }
  return { ...content(letter, vector, own), id: id(letter) }
}

const three = [point('a', [1, 0], { n: 1 }), point('b', [2, 0], { n: 2 }), point('c', [3, 0], { n: 3 })]
const atOrigin = { vector: [0, 0], metric: 'Euclidean', limit: 10 } as const
const wrongDimension = {
  reason: 'invalid_argument',
  message: 'vector has 3 dimensions, the collection has 2',
} as const
const missing = { reason: 'not_found', message: 'Point not found' } as const
const ofCommandLine: readonly SubjectName[] = ['command line']

const allKinds = {
  text: 'é',
  number: -0.5,
  flag: true,
  list: ['x', 'y'],
  nested: { deep: [{ n: 1 }] },
}

const rows: readonly Row[] = [
  // Inserts.
  {
    operation: 'InsertVector',
    does: 'stores a point under the id that the caller chooses, in lower case',
    call: (client) => client.insert({ ...content('d'), id: idD.toUpperCase() }),
    answers: idD,
    leaves: ['a', 'b', 'c', 'd'],
  },
  {
    operation: 'InsertVector',
    does: 'refuses an id that exists',
    call: (client) => client.insert({ ...content('new'), id: idB }),
    refuses: {
      reason: 'already_exists',
      message: `id ${idB} exists: send on_conflict to replace or skip it`,
      printed: `id: there is a point with the id ${idB} already`,
    },
  },
  {
    operation: 'InsertVector',
    does: 'keeps the existing point with `skip`',
    call: (client) => client.insert({ ...content('new'), id: idB, onConflict: 'skip' }),
    answers: idB,
    notBy: ofCommandLine,
  },
  {
    operation: 'InsertVector',
    does: 'replaces the existing point with `replace`; its position in lists stays',
    call: (client) => client.insert({ ...content('new'), id: idB, onConflict: 'replace' }),
    answers: idB,
    leaves: ['a', 'new', 'c'],
    notBy: ofCommandLine,
  },
  {
    operation: 'InsertVector',
    does: 'refuses a vector of another dimension',
    call: (client) => client.insert({ ...content('d', [1, 2, 3]), id: idD }),
    refuses: wrongDimension,
  },
  {
    operation: 'InsertVectorsBatch',
    does: 'stores all points, and returns their ids in the same order',
    call: (client) => client.insertBatch([point('e'), point('d')]),
    answers: [idE, idD],
    leaves: ['a', 'b', 'c', 'e', 'd'],
  },
  {
    operation: 'InsertVectorsBatch',
    does: 'stores none if one exists',
    call: (client) => client.insertBatch([point('d'), { ...content('new'), id: idB }]),
    refuses: {
      reason: 'already_exists',
      message: `vectors[1].id: there is a point with the id ${idB} already`,
      printed: `:2: id: there is a point with the id ${idB} already`,
    },
  },
  {
    operation: 'InsertVectorsBatch',
    does: 'stores none if two have the same id',
    call: (client) => client.insertBatch([point('d'), point('e'), { ...content('new'), id: idD }]),
    refuses: {
      reason: 'invalid_argument',
      message: 'vectors[2].id equals vectors[0].id: the ids of a request must differ',
      printed: ':3: id equals vectors[0].id: the ids of a request must differ',
    },
  },
  {
    operation: 'InsertVectorsBatch',
    does: 'continues after errors if asked to, and names the points that are not stored',
    call: (client) =>
      client.insertEach([
        point('d'),
        { ...content('short', [1]), id: id('f') },
        { ...content('new'), id: idB },
        { ...content('again'), id: idD },
        point('e'),
      ]),
    answers: {
      ids: [idD, null, null, null, idE],
      errors: [
        { index: 1, reason: 'invalid_argument' },
        { index: 2, reason: 'already_exists' },
        { index: 3, reason: 'invalid_argument' },
      ],
    },
    leaves: ['a', 'b', 'c', 'd', 'e'],
    notBy: ofCommandLine,
  },

  // One point.
  {
    operation: 'GetPoint',
    does: 'returns everything that was stored',
    given: [
      {
        id: idA,
        vector: Float32Array.of(0.1, -0),
        payload: {
          contentType: 'Image',
          content: 'line\n"quoted" 🦊',
          attributes: new Map([
            ...attributes(allKinds),
            ['at', new DateTime(1_795_000_000_000_001)],
            ['where', new GeoPoint(47.5, 19.25)],
          ]),
          expiresAtUs: 4_000_000_000_000_000,
        },
      },
    ],
    async call(client) {
      const { version, ...found } = await client.get(idA.toUpperCase())
      assert.ok(version > 0)
      return found
    },
    answers: {
      id: idA,
      vector: Float32Array.of(0.1, -0),
      payload: {
        contentType: 'Image',
        content: 'line\n"quoted" 🦊',
        attributes: new Map([
          ...attributes(allKinds),
          ['at', new DateTime(1_795_000_000_000_001)],
          ['where', new GeoPoint(47.5, 19.25)],
        ]),
        expiresAtUs: 4_000_000_000_000_000,
      },
    },
    leaves: ['line\n"quoted" 🦊'],
  },
  {
    operation: 'GetPoint',
    does: 'finds no missing point',
    call: (client) => client.get(idD),
    refuses: missing,
  },
  {
    operation: 'GetPoint',
    does: 'refuses what is no id',
    call: (client) => client.get('nonsense'),
    refuses: { reason: 'invalid_argument', message: 'id "nonsense" is not a UUID' },
  },
  {
    operation: 'PutPoint',
    does: 'creates a point',
    call: async (client) => (await client.put(idD, content('d'))).created,
    answers: true,
    leaves: ['a', 'b', 'c', 'd'],
  },
  {
    operation: 'PutPoint',
    does: 'replaces a point: vector, payload and version, but not its position',
    async call(client, { b }) {
      const { created, version } = await client.put(idB, content('new', [7, 8]))
      const found = await client.get(idB)
      assert.equal(found.version, version)
      return { created, isNewer: version > b!, ...found, version: undefined }
    },
    answers: {
      created: false,
      isNewer: true,
      id: idB,
      vector: Float32Array.of(7, 8),
      payload: { contentType: 'Text', content: 'new' },
      version: undefined,
    },
    leaves: ['a', 'new', 'c'],
  },
  {
    operation: 'PutPoint',
    does: 'replaces no point that has changed',
    call: (client, { b }) => client.put(idB, content('new'), { kind: 'version', version: b! - 1 }),
    refuses: {
      reason: 'precondition_failed',
      message: 'when.version is VERSION - 1, the point has version VERSION',
    },
  },
  {
    operation: 'PutPoint',
    does: 'replaces a point of the expected version',
    call: async (client, { b }) =>
      (await client.put(idB, content('new'), { kind: 'version', version: b! })).created,
    answers: false,
    leaves: ['a', 'new', 'c'],
  },
  {
    operation: 'PutPoint',
    does: 'replaces nothing if the id should be free',
    call: (client) => client.put(idB, content('new'), { kind: 'absent' }),
    refuses: { reason: 'precondition_failed', message: 'when.absent: a point with this id exists' },
  },
  {
    operation: 'PutPoint',
    does: 'expects no version of a missing point',
    call: (client) => client.put(idD, content('d'), { kind: 'version', version: 1 }),
    refuses: { reason: 'precondition_failed', message: 'when.version: there is no point with this id' },
  },
  {
    operation: 'PutPoint',
    does: 'refuses a vector of another dimension',
    call: (client) => client.put(idD, content('d', [1, 2, 3])),
    refuses: wrongDimension,
  },
  {
    operation: 'PatchPoint',
    does: 'sets and removes attributes by path, and the content',
    given: [point('a', [1, 2], { a: { b: 1, c: 2 }, d: 3 })],
    async call(client) {
      const set = new Map<string, string | number>([
        ['a.b', 5],
        ['e.f', 'new'],
      ])
      const { version } = await client.patch(idA, { set, unset: ['d', 'not.there'], content: 'y' })
      const found = await client.get(idA)
      assert.equal(found.version, version)
      return found.payload.attributes
    },
    answers: attributes({ a: { b: 5, c: 2 }, e: { f: 'new' } }),
    leaves: ['y'],
  },
  {
    operation: 'PatchPoint',
    does: 'changes the vector',
    async call(client) {
      await client.patch(idA, { vector: Float32Array.of(9, 9) })
      return (await client.get(idA)).vector
    },
    answers: Float32Array.of(9, 9),
    notBy: ofCommandLine,
  },
  {
    operation: 'PatchPoint',
    does: 'removes the expiry',
    given: [content('a', [0, 0], { expiresAtUs: 4_000_000_000_000_000 })].map((each) => ({
      ...each,
      id: idA,
    })),
    async call(client) {
      await client.patch(idA, { expiresAtUs: null })
      return (await client.get(idA)).payload
    },
    answers: { contentType: 'Text', content: 'a' },
    leaves: ['a'],
  },
  {
    operation: 'PatchPoint',
    does: 'refuses a vector of another dimension',
    call: (client) => client.patch(idA, { vector: Float32Array.of(1, 2, 3) }),
    refuses: wrongDimension,
    notBy: ofCommandLine,
  },
  {
    operation: 'PatchPoint',
    does: 'finds no missing point',
    call: (client) => client.patch(idD, { content: 'y' }),
    refuses: missing,
  },
  {
    operation: 'PatchPoint',
    does: 'changes no point that has changed',
    call: (client, { b }) => client.patch(idB, { content: 'y' }, { kind: 'version', version: b! - 1 }),
    refuses: {
      reason: 'precondition_failed',
      message: 'when.version is VERSION - 1, the point has version VERSION',
    },
  },
  {
    operation: 'PatchPoint',
    does: 'changes a point that matches a filter',
    call: async (client) => {
      await client.patch(idB, { content: 'y' }, { kind: 'filter', filter: where({ n: 2 }) })
    },
    leaves: ['a', 'y', 'c'],
    notBy: ofCommandLine,
  },
  {
    operation: 'PatchPoint',
    does: 'changes no point that does not match a filter',
    call: (client) => client.patch(idB, { content: 'y' }, { kind: 'filter', filter: where({ n: 1 }) }),
    refuses: { reason: 'precondition_failed', message: 'when.filter: the point does not match' },
    notBy: ofCommandLine,
  },
  {
    operation: 'DeletePoint',
    does: 'deletes a point',
    call: (client) => client.delete(idB),
    leaves: ['a', 'c'],
  },
  {
    operation: 'DeletePoint',
    does: 'refuses what is no id',
    call: (client) => client.delete('nonsense'),
    refuses: { reason: 'invalid_argument', message: 'id "nonsense" is not a UUID' },
  },

  // Searches.
  {
    operation: 'SearchPoints',
    does: 'finds the nearest first; of equal ones, that which was inserted first',
    given: [point('c', [1, 1]), point('b', [0, 1]), point('a', [1, 0])],
    call: (client) => client.search({ ...atOrigin, limit: 2 }),
    answers: [idB, idA],
    leaves: ['c', 'b', 'a'],
  },
  {
    operation: 'SearchPoints',
    does: 'finds what matches a filter, up to a distance',
    call: (client) =>
      client.search({ ...atOrigin, filter: where({ n: { $gte: 2 } }), maxDistance: 2.5, exact: true }),
    answers: [idB],
  },
  {
    operation: 'SearchPoints',
    does: 'returns distances and payloads',
    call: (client) => client.searchHits({ ...atOrigin, limit: 1 }, { distance: true, payload: true }),
    answers: [{ id: idA, distance: 1, payload: three[0]!.payload }],
  },
  {
    operation: 'SearchPoints',
    does: 'finds the neighbours of a point, without the point',
    call: (client) => client.search({ ...atOrigin, vector: idB }),
    answers: [idA, idC],
    notBy: ofCommandLine,
  },
  {
    operation: 'SearchPoints',
    does: 'refuses a vector of another dimension',
    call: (client) => client.search({ ...atOrigin, vector: [1, 2, 3] }),
    refuses: { reason: 'invalid_argument', message: 'vector has 3 dimensions, the collection has 2' },
  },
  {
    operation: 'SearchPoints',
    does: 'refuses more results than the service allows',
    call: (client) => client.search({ ...atOrigin, limit: 16_385 }),
    refuses: {
      reason: 'invalid_argument',
      message: 'limit is 16385, it must be a whole number from 1 to 16384 (MAX_LIMIT)',
    },
  },
  {
    operation: 'SearchPointsBatch',
    does: 'answers each query',
    call: (client) =>
      client.searchBatch([
        { ...atOrigin, limit: 1 },
        { ...atOrigin, vector: [9, 0], limit: 2, filter: where({ n: { $lt: 3 } }) },
      ]),
    answers: [[idA], [idB, idA]],
    notBy: ofCommandLine,
  },

  // Lists and counts.
  {
    operation: 'ListPoints',
    does: 'returns all points in the order of their insertion, page by page',
    call: async (client) => (await client.listAll(undefined, 2)).map((hit) => hit.id),
    answers: [idA, idB, idC],
  },
  {
    operation: 'ListPoints',
    does: 'returns what matches a filter, with its parts',
    async call(client, { b }) {
      const [hit] = await client.listAll(where({ n: 2 }), 10)
      assert.equal(hit!.version, b)
      return { ...hit, version: undefined }
    },
    answers: { ...three[1]!, version: undefined },
  },
  {
    operation: 'CountPoints',
    does: 'counts all points',
    call: (client) => client.count(undefined),
    answers: 3,
  },
  {
    operation: 'CountPoints',
    does: 'counts what matches a filter',
    call: (client) => client.count(where({ $or: [{ n: { $gte: 3 } }, { $id: idA }, { none: 1 }] })),
    answers: 2,
  },
  {
    operation: 'FacetPoints',
    does: 'counts the values of paths, the most frequent first',
    given: [point('a', [0, 0], { t: ['x', 'y'] }), point('b', [0, 0], { t: 'y' }), point('c')],
    call: (client) => client.facets(where({ $not: { $id: idC } }), ['t', 'none']),
    answers: new Map([
      [
        't',
        [
          { value: 'y', count: 2 },
          { value: 'x', count: 1 },
        ],
      ],
      ['none', []],
    ]),
  },

  // Changes by filter.
  {
    operation: 'EvaluatePoints',
    does: 'measures the results of queries, and finds the least ef that is good',
    async call(client) {
      const judgements = [
        { vector: [1, 0], relevant: { [idA]: 1 } },
        { vector: [1, 0], relevant: { [idB]: 2, [idD]: 1 } },
      ]
      const query = { judgements, metric: 'Euclidean', k: 2, ef: 16, sweep: ['ef'] } as const
      const { ndcg, recall, mrr, missing, queries, best, curve } = await client.evaluate(query)
      return [ndcg, recall, mrr, missing, queries[0], best!.ef, best!.ndcg === ndcg, curve.length]
    },
    // The first result of the second query is not relevant, and one of its relevant points is not stored.
    answers: [
      (1 + 2 / Math.log2(3) / (2 + 1 / Math.log2(3))) / 2,
      0.75,
      0.75,
      1,
      { ndcg: 1, recall: 1, mrr: 1 },
      2,
      true,
      7,
    ],
  },
  {
    operation: 'UpdatePoints',
    does: 'changes what matches',
    async call(client) {
      const change = { set: new Map([['new.x', 1]]), unset: ['n'] }
      const { changed } = await client.changeByFilter({
        filter: where({ n: { $lt: 3 } }),
        change,
        dryRun: false,
      })
      return [changed, await client.count(where({ 'new.x': 1, n: { $exists: false } }))]
    },
    answers: [2, 2],
  },
  {
    operation: 'UpdatePoints',
    does: 'changes a limited number, the first inserted first',
    async call(client) {
      const change = { set: new Map([['new', 1]]) }
      const { changed } = await client.changeByFilter({ filter: where({}), change, limit: 2, dryRun: false })
      return [changed, (await client.listAll(where({ new: 1 }), 10)).map((hit) => hit.id)]
    },
    answers: [2, [idA, idB]],
  },
  {
    operation: 'UpdatePoints',
    does: 'changes nothing if it cannot change one of them, and names it',
    given: [point('a', [0, 0], { n: 1 }), point('b', [0, 0], { n: 2, a: 'text' })],
    call: (client) =>
      client.changeByFilter({ filter: where({}), change: { set: new Map([['a.b', 1]]) }, dryRun: false }),
    refuses: {
      reason: 'invalid_argument',
      message: `point ${idB}: set has the path "a.b", but "a" is a string and not a map`,
    },
  },
  {
    operation: 'UpdatePoints',
    does: 'only counts in a dry run',
    async call(client) {
      const change = { set: new Map([['new', 1]]) }
      const { changed } = await client.changeByFilter({ filter: where({ n: 1 }), change, dryRun: true })
      return [changed, await client.count(where({ new: 1 }))]
    },
    answers: [1, 0],
  },
  {
    operation: 'DeletePoints',
    does: 'deletes what matches',
    call: async (client) =>
      (await client.changeByFilter({ filter: where({ n: { $gt: 1 } }), change: 'delete', dryRun: false }))
        .changed,
    answers: 2,
    leaves: ['a'],
  },
  {
    operation: 'DeletePoints',
    does: 'only counts in a dry run',
    call: async (client) =>
      (await client.changeByFilter({ filter: where({}), change: 'delete', dryRun: true })).changed,
    answers: 3,
  },
  {
    operation: 'DeletePoints',
    does: 'deletes a limited number, the first inserted first',
    call: async (client) =>
      (await client.changeByFilter({ filter: where({}), change: 'delete', limit: 2, dryRun: false })).changed,
    answers: 2,
    leaves: ['c'],
  },
]

const interfaces = ['engine', 'gRPC', 'HTTP', 'command line'] as const

for (const name of interfaces) {
  describe(`operations on points, by ${name}`, () => {
    let subject: Subject
    before(async () => {
      subject = await subjects[name]()
    })
    after(() => subject[Symbol.asyncDispose]())

    const contents = async (): Promise<readonly string[]> =>
      (await subject.client.listAll(undefined, 100)).map((hit) => hit.payload!.content)

    for (const row of rows) {
      const { operation, does, given = three, refuses, notBy = [] } = row
      it(`${operation} ${does}`, async () => {
        const { client } = subject
        await client.changeByFilter({ filter: where({}), change: 'delete', dryRun: false })
        await client.insertBatch(given)
        const stored = await client.listAll(undefined, 100)
        const versions = Object.fromEntries(stored.map((hit) => [hit.payload!.content, hit.version!]))

        const called = row.call(client, versions)
        if (notBy.includes(name)) return await assert.rejects(called, NoSuchCommand)
        if (refuses === undefined) assert.deepEqual(await called, row.answers)
        else await assert.rejects(called, (error: Error) => isRefusal(error, refuses, name, versions.b))
        assert.deepEqual(await contents(), row.leaves ?? given.map((each) => each.payload.content))
      })
    }
  })
}

function isRefusal(
  error: Error & { readonly reason?: Reason },
  { reason, message, printed = message }: NonNullable<Row['refuses']>,
  by: SubjectName,
  version: number | undefined,
): true {
  const expected = (by === 'command line' ? printed : message)
    .replace('VERSION - 1', String(version! - 1))
    .replace('VERSION', String(version))
  if (by === 'command line') assert.ok(error.message.includes(expected), error.message)
  // gRPC names a field as its messages do.
  else assert.deepEqual([error.reason, error.message.replace(/^(query_|patch\.)/, '')], [reason, expected])
  return true
}

describe('the table of operations', () => {
  it('has rows for every operation on points that all interfaces offer', () => {
    const covered = new Set(rows.map(({ operation }) => operation))
    const onlyHttp: readonly string[] = ['TakeSnapshot', 'GetStats']
    for (const [name, { concerns }] of Object.entries(operations)) {
      if (concerns === 'points' && !onlyHttp.includes(name))
        assert.ok(covered.has(name as OperationName), name)
    }
  })
})
