import type { AttributeValue } from '../../src/base/attributes.ts'
import type { VectorClient } from '../../src/client/index.ts'
import { clientPointOf, payloadOf } from '../support/model-client.ts'
import { newPoints } from './new-points.ts'
import { type Becoming, differenceOf, insertOf, type Oracle, type OraclePoint } from './oracle.ts'

export interface ChangeOptions {
  readonly oracle: Oracle
  readonly random: () => number
  readonly vector: () => Float32Array
}

/**
 * Changes one point, or all points of an insert, in one of many ways; some make points expire immediately. Every answer
 * is checked immediately.
 *
 * @param id of a live point without a pending change
 */
export async function changePoints(
  client: VectorClient,
  options: ChangeOptions,
  id: string | undefined,
): Promise<void> {
  if (id === undefined) return
  const dice = options.random()
  if (dice < 0.3) return await put(client, options, id)
  if (dice < 0.7) return await patch(client, options, id, dice < 0.4)
  await changeInsert(client, options, id, dice < 0.8 ? 'delete' : dice < 0.85 ? 'expire' : 'update')
}

async function put(
  client: VectorClient,
  { oracle, random, vector }: ChangeOptions,
  id: string,
): Promise<void> {
  const { vector: components, payload } = newPoints(oracle.marker(), 1, random, vector)[0]!
  const point = { vector: components, payload }
  const { version, created } = await whileChanging(oracle, new Map([[id, point]]), () =>
    client.put(id, clientPointOf(point)),
  )
  if (created) throw new Error(`a put reports that it created the point ${id}, which existed`)
  oracle.sawVersion(id, version, true)
}

async function patch(
  client: VectorClient,
  { oracle, random, vector }: ChangeOptions,
  id: string,
  isEnd: boolean,
): Promise<void> {
  const before = oracle.live.get(id)!
  if (isEnd) {
    await whileChanging(oracle, new Map([[id, undefined]]), () =>
      client.patch(id, { expiresAt: new Date(1) }),
    )
    return
  }
  const name = oracle.marker()
  const components = random() < 0.5 ? vector() : undefined
  const after = { ...withAttribute(before, name), vector: components ?? before.vector }
  const { version } = await whileChanging(oracle, new Map([[id, after]]), () =>
    client.patch(id, { set: { changed: name }, vector: components }),
  )
  oracle.sawVersion(id, version, true)
}

/** Changes the remaining points of an insert, as a group. */
async function changeInsert(
  client: VectorClient,
  { oracle }: ChangeOptions,
  id: string,
  kind: 'delete' | 'expire' | 'update',
): Promise<void> {
  const insert = insertOf(oracle.live.get(id)!)
  const points = [...oracle.live].filter(([, point]) => insertOf(point) === insert)
  if (points.some(([each]) => oracle.isUnsure(each))) return
  const name = oracle.marker()
  const becoming = new Map(
    points.map(([each, point]) => [each, kind === 'update' ? withAttribute(point, name) : undefined]),
  )
  const filter = { insert }
  const { changed, more } = await whileChanging(oracle, becoming, () => {
    if (kind === 'delete') return client.deleteMatching({ filter })
    return client.updateMatching({
      filter,
      ...(kind === 'update' ? { set: { changed: name } } : { expiresAt: new Date(1) }),
    })
  })
  if (changed !== points.length || more)
    throw new Error(`of ${points.length} points ${changed} were changed by filter`)
}

async function whileChanging<Answer>(
  oracle: Oracle,
  change: Becoming,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  oracle.changing.add(change)
  const answer = await ask()
  oracle.changed(change)
  oracle.acknowledged += change.size
  return answer
}

function withAttribute({ vector, payload }: OraclePoint, changed: string): OraclePoint {
  const attributes = new Map<string, AttributeValue>([...(payload.attributes ?? []), ['changed', changed]])
  return { vector, payload: { ...payload, attributes } }
}

/**
 * Determines the outcome of the unanswered changes.
 *
 * @param found ids of all stored points
 * @throws Error if a change happened partially
 */
export async function settleChanges(
  client: VectorClient,
  oracle: Oracle,
  found: ReadonlySet<string>,
): Promise<void> {
  oracle.unsettled += oracle.changing.size
  for (const change of [...oracle.changing]) {
    let happened = 0
    for (const [id, after] of change) {
      const point = found.has(id) ? await client.get(id) : undefined
      const now = point && { vector: point.vector, payload: payloadOf(point.payload) }
      if (isSame(now, after)) happened += 1
      else if (!isSame(now, oracle.live.get(id)))
        throw new Error(`the point ${id} is neither as before a change nor as after it`)
    }
    if (happened === change.size) oracle.changed(change)
    else if (happened > 0) throw new Error(`of a change of ${change.size} points ${happened} have happened`)
  }
  // A change that did not happen counts as never requested.
  oracle.changing.clear()
}

function isSame(now: OraclePoint | undefined, expected: OraclePoint | undefined): boolean {
  if (now === undefined || expected === undefined) return now === expected
  return differenceOf(now, expected) === undefined
}
