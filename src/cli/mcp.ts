import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  localhostHostValidation,
  localhostOriginValidation,
  type NodeIncomingMessageLike,
  toNodeHandler,
} from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer, type ToolAnnotations } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'
import { plainToJson } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import { operatorNames } from '../base/filter.ts'
import { distanceMetrics, onErrorRules } from '../base/point.ts'
import { version } from '../base/runtime.ts'
import type { Boost, Changed, PointsClient, VectorClient } from '../client/client.ts'
import { type AttributeInput, type AttributesInput, attributeJson, type Filter } from '../client/values.ts'
import { type Environment, stopSignal } from './arguments.ts'
import { type ConnectionOptions, withClient } from './connection.ts'
import { boostOf, lineOf } from './points.ts'

export interface McpOptions extends ConnectionOptions {
  readonly write?: boolean
  /** Port on 127.0.0.1 for Streamable HTTP; if not given, uses standard input and output. */
  readonly port?: number
}

/** Serves the points to language models over the Model Context Protocol, until it is stopped. */
export async function serveMcp(options: McpOptions, environment: Environment): Promise<void> {
  const stop = stopSignal()
  await withClient(options, environment, async (client) => {
    const tools: ToolOptions = { client, write: options.write ?? false }
    if (options.port === undefined) await serveProcess(tools, stop)
    else await serveHttp(tools, options.port, stop)
  })
}

/** Also ends when its input ends: that is how a host stops a server that it has started. */
async function serveProcess(tools: ToolOptions, stop: Promise<unknown>): Promise<void> {
  const handle = serveStdio(() => createMcpServer(tools))
  await Promise.race([stop, once(process.stdin, 'close')])
  await handle.close()
}

/** Serves this machine only. Pages of other origins are refused. */
async function serveHttp(tools: ToolOptions, port: number, stop: Promise<unknown>): Promise<void> {
  const handle = toNodeHandler(createMcpHandler(() => createMcpServer(tools)))
  const isHostAllowed = localhostHostValidation()
  const isOriginAllowed = localhostOriginValidation()
  const server = createServer((request, response) => {
    if (isHostAllowed(request, response) && isOriginAllowed(request, response)) {
      void handle(request as NodeIncomingMessageLike, response)
    }
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  console.error(`MCP at http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await stop
  server.close()
  server.closeAllConnections()
}

/** Options of the tools. */
export interface ToolOptions {
  readonly client: VectorClient
  /** Adds the tools that change points. */
  readonly write: boolean
}

const collection = z.string().optional().describe('name or alias of a collection; see describe')
const filter = z
  .record(z.string(), z.unknown())
  .optional()
  .describe(
    `selects points: tests by attribute path, like {"price": {"$lt": 10}, "tags": {"$in": ["new"]}}; operators ${operatorNames.map((name) => `$${name}`).join(' ')}, and $and $or $not around filters; times are {"$date": "2026-01-31T00:00:00Z"}`,
  )
const id = z.guid().describe('id of a point')

/** Creates an MCP server with the operations on points as tools. Answers are the JSON of the HTTP interface. */
export function createMcpServer({ client, write }: ToolOptions): McpServer {
  const server = new McpServer(
    { name: 'vicinal', version: version() },
    {
      instructions: 'A vector database. Call describe first: it lists the collections and their dimensions.',
    },
  )
  addReading(server, client)
  if (write) addWriting(server, client)
  return server
}

function addReading(server: McpServer, client: VectorClient): void {
  const readOnly = { readOnlyHint: true }
  const add = adderOf(server, client, readOnly)

  server.registerTool(
    'describe',
    {
      description:
        'Lists the collections, with the dimension and number of points of each, and with embeddingModel if texts can be embedded.',
      annotations: readOnly,
    },
    () => answer(async () => JSON.stringify(await client.collections.list())),
  )
  add(
    'search',
    'Finds the nearest points to a text (if describe shows an embeddingModel), to a vector or to a stored point, closest first, with distance and payload; or the best ones for words (if describe shows words), or for both, with scores.',
    {
      text: z.string().optional().describe('what to search near: the service embeds it'),
      vector: z.array(z.number()).optional().describe('or a vector with the dimension of the collection'),
      id: z.guid().optional().describe('or a stored point, which is left out of the results'),
      words: wordsOfTool,
      like: z.array(z.guid()).optional().describe('stored points to search near, with or without the above'),
      unlike: z.array(z.guid()).optional().describe('stored points to stay away from'),
      statistics: z
        .strictObject({ filter: z.record(z.string(), z.unknown()) })
        .optional()
        .describe('counts how often words occur in the points that match only'),
      ...settingsOfTools,
      on_error: z.enum(onErrorRules).optional().describe('whether to go on if that model fails'),
      group_by: z
        .strictObject({ path: z.string(), size: z.number().int().optional() })
        .optional()
        .describe('limit groups, each of up to size points with the same value at the path'),
      highlight: z.boolean().default(false).describe('shows where the words are'),
      cursor: z
        .string()
        .optional()
        .describe('of a search by words: "" for the first of several pages, then its next_cursor'),
      limit: z.number().int().min(1).max(1000).default(10),
      exact: z.boolean().optional().describe('finds the true nearest points, however long it takes'),
      max_distance: z.number().optional().describe('the greatest distance of a result'),
    },
    async (
      points,
      { max_distance: maxDistance, on_error: onError, group_by: groupBy, highlight, ...asked },
    ) => {
      const { text, vector, id, like, words, rerank, statistics } = asked
      const include = {
        distance: (text ?? vector ?? id ?? like) !== undefined,
        payload: true,
        scores: (words ?? asked.boost ?? rerank) !== undefined,
        highlight,
      }
      const counted = statistics && { filter: filterOf(statistics.filter)! }
      const more = { ...settingsOf(asked), maxDistance, onError, groupBy, statistics: counted, include }
      const { hits, groups, nextCursor } = await points.searchHits({ ...asked, ...more })
      const shown = groups?.flatMap(({ value, hits: members }) => [
        plainToJson({ group: attributeJson(value) }),
        ...members.map(lineOf),
      ])
      return linesOf([...(shown ?? hits.map(lineOf)), ...nextLine(nextCursor)])
    },
  )
  add('get', 'Returns a point with its payload.', { id }, async (points, { id }) => {
    const { vector, ...point } = await points.get(id, { version: true })
    return lineOf(point)
  })
  add('count', 'Counts the points that match.', { filter }, async (points, { filter }) =>
    String(await points.count(filterOf(filter))),
  )
  add(
    'list',
    'Lists points in the order of their insertion, one page at a time.',
    {
      filter,
      limit: z.number().int().min(1).max(1000).default(20),
      cursor: z.string().optional().describe('next_cursor of the previous page'),
    },
    async (points, { filter, limit, cursor }) => {
      const query = { filter: filterOf(filter), limit, cursor, include: { payload: true } }
      const page = await points.list(query)
      return linesOf([...page.points.map(lineOf), ...nextLine(page.nextCursor)])
    },
  )
  add(
    'facets',
    'Lists the most frequent values of attributes, with the number of points that have them.',
    {
      filter,
      paths: z.array(z.string()).min(1).describe('like ["tags", "size.width"]'),
      limit: z.number().int().min(1).max(1000).default(10),
    },
    async (points, { filter, paths, limit }) => {
      const facets = await points.facets({ filter: filterOf(filter), paths, limit })
      return plainToJson(attributeJson(facets as unknown as AttributeInput))
    },
  )
  add(
    'evaluate',
    'Measures how well searches find the points that were judged relevant to queries: nDCG, recall and MRR of the first k results.',
    {
      judgements: judgementsOfTool,
      k: z.number().int().min(1).max(1000).default(10),
      sweep: z
        .array(z.enum(['balance', 'ef', 'paths']))
        .optional()
        .describe('settings to vary, to find what is best'),
      ...settingsOfTools,
    },
    async (points, asked) => JSON.stringify(await points.evaluate({ ...asked, ...settingsOf(asked) })),
  )
}

const wordsOfTool = z
  .union([z.string(), z.literal(true)])
  .optional()
  .describe('words to find, alone or together with one of the above; true for those of text')

/** How to search: the same for a search and for an evaluation. */
const settingsOfTools = {
  metric: z.enum(distanceMetrics).default('Cosine').describe('how distance is measured'),
  balance: z.number().min(0).max(1).optional().describe('what the vector counts beside the words'),
  ef: z.number().int().min(0).optional().describe('the breadth of the search'),
  filter,
  boost: z
    .array(z.record(z.string(), z.unknown()))
    .optional()
    .describe(
      'raises scores: {"filter": {...}, "weight": 0.1} or {"recent": {"path": "at", "half_life": "14d"}, "weight": 0.2}',
    ),
  diversity: z.number().min(0).max(1).optional().describe('how much unlike results come first'),
  rerank: z.number().int().optional().describe('how many of the best a model ranks anew, at least limit'),
}

/** The settings in the form of the client. */
function settingsOf({
  filter,
  boost,
}: {
  readonly filter?: Record<string, unknown> | undefined
  readonly boost?: readonly Record<string, unknown>[] | undefined
}): { readonly filter: Filter | undefined; readonly boost: readonly Boost[] | undefined } {
  return { filter: filterOf(filter), boost: boost?.map(boostOf) }
}

function nextLine(nextCursor: string | undefined): readonly string[] {
  return nextCursor === undefined ? [] : [JSON.stringify({ next_cursor: nextCursor })]
}

const judgementsOfTool = z
  .array(
    z.strictObject({
      text: z.string().optional().describe('ranked by meaning, if the service has embeddings'),
      vector: z.array(z.number()).optional().describe('or a vector'),
      words: wordsOfTool,
      relevant: z.record(z.guid(), z.number()).describe('grades of points by id, greater than 0'),
    }),
  )
  .min(1)

function addWriting(server: McpServer, client: VectorClient): void {
  const add = adderOf(server, client, { readOnlyHint: false, destructiveHint: true })
  add(
    'upsert',
    'Stores a point, or replaces the point with this id. Returns the id.',
    {
      id: z.guid().optional().describe('assigned if not given'),
      vector: z
        .array(z.number())
        .min(1)
        .optional()
        .describe('without it, the service embeds text, or content of type Text, if it has embeddings'),
      text: z.string().optional().describe('embedded in place of the content; not stored'),
      content: z.string(),
      content_type: z.enum(['Text', 'Image']).default('Text'),
      attributes: z.record(z.string(), z.unknown()).optional(),
    },
    async (points, { id, vector, text, content, content_type: contentType, attributes }) => {
      const payload = { contentType, content, attributes: attributes as AttributesInput | undefined }
      const point = { vector, text, payload }
      return await points.insert(id === undefined ? point : { ...point, id, onConflict: 'replace' })
    },
  )
  add(
    'delete',
    'Deletes a point by its id, or all points that match a filter.',
    {
      id: z.guid().optional(),
      filter,
      dry_run: z.boolean().default(false).describe('with a filter: only count'),
    },
    async (points, { id, filter, dry_run: dryRun }) => {
      const where = filterOf(filter)
      if ((id === undefined) === (where === undefined)) {
        throw new DatabaseError('invalid_argument', 'give an id or a filter')
      }
      if (where !== undefined) return wordsOf(await points.deleteMatching({ filter: where, dryRun }), dryRun)
      if (dryRun) {
        throw new DatabaseError('invalid_argument', 'dry_run is true, it needs a filter: nothing was deleted')
      }
      await points.delete(id!)
      return 'deleted'
    },
  )
}

/** Returns what adds a tool that works on the points of a collection, and whose answer is a text. */
function adderOf(server: McpServer, client: VectorClient, annotations: ToolAnnotations) {
  return <Shape extends z.ZodRawShape>(
    name: string,
    description: string,
    shape: Shape,
    run: (points: PointsClient, input: z.output<z.ZodObject<Shape>>) => Promise<string>,
  ): void => {
    const inputSchema = z.strictObject({ collection, ...shape })
    server.registerTool(name, { description, inputSchema, annotations }, (input) => {
      const { collection: of, ...fields } = input as { readonly collection?: string }
      return answer(() =>
        run(of === undefined ? client : client.collection(of), fields as z.output<z.ZodObject<Shape>>),
      )
    })
  }
}

function wordsOf({ changed, more }: Changed, dryRun: boolean): string {
  return `${changed} points ${dryRun ? 'match' : 'deleted'}${more ? ', and there are more' : ''}`
}

/** The client reads times and geo points in the JSON of HTTP, too. */
function filterOf(filter: object | undefined): Filter | undefined {
  return filter as Filter | undefined
}

function linesOf(lines: readonly string[]): string {
  return lines.length === 0 ? 'nothing found' : lines.join('\n')
}

interface ToolAnswer {
  [field: string]: unknown
  content: { type: 'text'; text: string }[]
  isError?: boolean
}

/** Turns a refusal of the service into an answer that the model can read and act on. */
async function answer(make: () => Promise<string>): Promise<ToolAnswer> {
  try {
    return { content: [{ type: 'text', text: await make() }] }
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    return { content: [{ type: 'text', text: `${error.reason}: ${error.message}` }], isError: true }
  }
}
