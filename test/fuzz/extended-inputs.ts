import { isDeepStrictEqual } from 'node:util'
import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { attributeLimits } from '../../src/base/attributes.ts'
import { VectorDB } from '../../src/messages/generated/vectordb_pb.js'
import { Dice } from './dice.ts'
import { attributesOf, type ExtendedRequest, extendedRequest, vectorOf } from './extended-requests.ts'
import { type Family, type Input, inTime, leakIn, type Outcome } from './input.ts'
import { faultOf } from './json-inputs.ts'
import { broken, change, nodeOf, write } from './json-nodes.ts'
import { apiKey, type Target } from './target.ts'

/**
 * Requests beyond the contract: attributes, filters, patches, conditions, cursors, keys. They go to a separate
 * collection, where damaged requests may store and delete anything. No answer may blame the server, and the points of
 * the default collection must stay unchanged. Attributes of hostile shapes go to another collection; the service must
 * return them unchanged or refuse them for their size.
 */
export const extendedFamily: Family = {
  name: 'extended',
  share: 25,
  lanes: 8,
  make(dice) {
    if (dice.chance(0.15)) return roundTrip(dice)
    const request = extendedRequest(dice, ids)
    return dice.chance(0.5) ? overHttp(dice, request) : overGrpc(dice, request)
  },
}

const changed = 'changed'
const kept = 'kept'
/** The collections that these inputs need. */
export const fuzzedCollections: readonly string[] = [changed, kept]

const anyId = new Dice(7).uuid()
/** Few ids, so that requests reuse them. */
const ids = Array.from({ length: 40 }, (_, index) => anyId.replace(/^../, String(10 + index)))

function overHttp(dice: Dice, request: ExtendedRequest): Input {
  const document = [nodeOf(request.body)]
  const changes = dice.below(4)
  for (let each = 0; each < changes; each += 1) change(dice, document)
  // Without changes, bypass `write`, which adds faults itself.
  const text = Buffer.from(changes === 0 ? JSON.stringify(request.body) : write(dice, document))
  const isDamaged = changes > 0 || dice.chance(0.15)
  const bytes = changes > 0 || !isDamaged ? text : broken(dice, text)
  return httpInput(request, isDamaged ? [...request.statuses, ...refusals] : request.statuses, [bytes])
}

/** The possible statuses of a request that is invalid somewhere, or valid in another way than before the change. */
const refusals = [200, 201, 400, 404, 409, 412, 413, 422]

function httpInput(request: ExtendedRequest, statuses: readonly number[], parts: readonly Buffer[]): Input {
  return {
    label: [request.line, ...request.headers].join('\n'),
    parts,
    send: (target) => sendHttp(target, request, statuses, Buffer.concat(parts)),
    withParts: (others) => httpInput(request, [...statuses, ...refusals], others),
  }
}

async function sendHttp(
  target: Target,
  { line, headers }: ExtendedRequest,
  statuses: readonly number[],
  body: Buffer,
): Promise<Outcome> {
  const { status, type, text } = await askHttp(target, line, changed, headers, body)
  return {
    answer: `HTTP ${status}`,
    fault: faultOf(status, statuses, type, text) ?? (status === 200 ? tornIn(text) : undefined),
  }
}

async function askHttp(
  target: Target,
  line: string,
  collection: string,
  headers: readonly string[] = [],
  body: Buffer | string = '',
): Promise<{ readonly status: number; readonly type: string | undefined; readonly text: string }> {
  const path = line.replace('/points', `/collections/${collection}/points`)
  const answer = target.withHttp((connection) => {
    connection.request(path, ['content-type: application/json', ...headers], body)
    return connection.answer()
  })
  const { status, headers: answered, body: text } = await inTime(answer, line)
  return { status, type: answered['content-type'], text }
}

/** Checks that the hits list the same points as the results. */
function tornIn(text: string): string | undefined {
  const { results, hits } = JSON.parse(text)
  if (results === undefined || hits === undefined) return undefined
  const found = hits.map(({ id }: { readonly id: string }) => id)
  return isDeepStrictEqual(found, results) ? undefined : `the hits are not the results: ${text.slice(0, 200)}`
}

function overGrpc(dice: Dice, { rpc, message, codes }: ExtendedRequest): Input {
  const description = VectorDB.methods.find(({ name }) => name === rpc)!
  const bytes = Buffer.from(
    toBinary(description.input, create(description.input, message as MessageInitShape<DescMessage>)),
  )
  const isDamaged = dice.chance(0.6)
  return grpcInput(rpc, isDamaged ? faultsOfCaller : codes, [isDamaged ? dice.damaged(bytes) : bytes])
}

const faultsOfCaller = [0, 3, 5, 6, 8, 9]

function grpcInput(rpc: string, codes: readonly number[], parts: readonly Buffer[]): Input {
  return {
    label: rpc,
    parts,
    async send(target): Promise<Outcome> {
      const metadata = { collection: changed }
      const { code, text } = await inTime(target.calls.send(rpc, Buffer.concat(parts), { metadata }), rpc)
      const leak = leakIn(text, [apiKey])
      const fault = codes.includes(code)
        ? leak && `${leak} in the answer`
        : `code ${code} instead of ${codes}: ${text}`
      return { answer: `gRPC ${code}`, fault }
    },
    withParts: (others) => grpcInput(rpc, faultsOfCaller, others),
  }
}

function roundTrip(dice: Dice): Input {
  const [id, vector, attributes] = [dice.uuid(), vectorOf(dice), hostileAttributes(dice)]
  const body = Buffer.from(
    JSON.stringify({ vector, payload: { content_type: 'Text', content: '', attributes } }),
  )
  return {
    label: `PUT and GET of ${JSON.stringify(attributes).slice(0, 200)}`,
    parts: [body],
    send: (target) => sendRoundTrip(target, id, attributes, body),
    withParts: undefined,
  }
}

async function sendRoundTrip(target: Target, id: string, attributes: object, body: Buffer): Promise<Outcome> {
  const line = `PUT /points/${id}`
  const { status, type, text } = await askHttp(target, line, kept, [], body)
  const expected = isWithinLimits(attributes) ? 201 : 400
  const fault = faultOf(status, [expected], type, text)
  if (fault !== undefined || status !== 201) return { answer: `PUT ${status}`, fault }
  const { payload } = JSON.parse((await askHttp(target, `GET /points/${id}`, kept)).text)
  // Empty attributes are not stored; -0 becomes 0.
  const sent = Object.keys(attributes).length === 0 ? undefined : JSON.parse(JSON.stringify(attributes))
  const isSame = isDeepStrictEqual(payload.attributes, sent)
  return {
    answer: 'PUT 201',
    fault: isSame ? undefined : `came back as ${JSON.stringify(payload).slice(0, 500)}`,
  }
}

/** Attributes of any shape, around and above the limits. */
function hostileAttributes(dice: Dice): Readonly<Record<string, unknown>> {
  const { bytes, depth, paths } = attributeLimits
  return dice.pick<() => Record<string, unknown>>([
    () => attributesOf(dice, 6),
    () => attributesOf(dice, 8),
    () => ({ ['k'.repeat(bytes - 7 + dice.below(4))]: 1 }),
    () => ({ ['é'.repeat(dice.size(bytes))]: 1 }),
    () => ({ text: '\u0000'.repeat(dice.size(bytes / 5)) }),
    () => ({ list: new Array(dice.size(bytes)).fill(0) }),
    () => ({ lists: new Array(dice.size(2000)).fill([{ a: [] }]) }),
    () => Object.fromEntries(dice.list(paths - 2 + dice.below(5), (index) => [`n${index}`, index])),
    () => nestedMaps(depth - 2 + dice.below(5)),
    () => ({ a: nestedLists(depth - 3 + dice.below(5)) }),
    () => nestedMaps(dice.size(1500)),
    () => ({ a: nestedLists(dice.size(1500)) }),
  ])()
}

function nestedMaps(depth: number): Record<string, unknown> {
  let map: Record<string, unknown> = { a: 1 }
  for (let level = 1; level < depth; level += 1) map = { a: map }
  return map
}

function nestedLists(depth: number): unknown {
  let list: unknown = [1]
  for (let level = 1; level < depth; level += 1) list = [list]
  return list
}

function isWithinLimits(attributes: object): boolean {
  const paths = new Set<string>()
  return (
    isWithin(attributes, '', attributeLimits.depth, paths) &&
    paths.size <= attributeLimits.paths &&
    Buffer.byteLength(JSON.stringify(attributes)) <= attributeLimits.bytes
  )
}

/** Whether a value is within the depth limit. @param paths collects the paths */
function isWithin(value: unknown, path: string, depth: number, paths: Set<string>): boolean {
  if (typeof value !== 'object' || value === null || '$date' in value || '$geo' in value) return true
  if (depth === 0) return false
  if (Array.isArray(value)) return value.every((each) => isWithin(each, path, depth - 1, paths))
  return Object.entries(value).every(([name, each]) => {
    paths.add(`${path}.${name}`)
    return isWithin(each, `${path}.${name}`, depth - 1, paths)
  })
}
