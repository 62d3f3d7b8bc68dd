import { randomUUID } from 'node:crypto'
import type { AttributeValue } from '../../src/base/attributes.ts'
import { contentTypes } from '../../src/base/point.ts'
import type { InsertOptions, VectorClient } from '../../src/client/index.ts'
import { clientPointOf } from '../support/model-client.ts'
import { contentOf, type OraclePoint } from './oracle.ts'

/**
 * Inserts a single point with the operation for one. Points with ids use the operation that continues after errors,
 * followed by an invalid point.
 */
export async function insertAll(
  client: VectorClient,
  points: readonly OraclePoint[],
  options: InsertOptions,
): Promise<readonly string[]> {
  const [first, ...others] = points.map(clientPointOf)
  if (first!.id === undefined) {
    return others.length === 0
      ? [await client.insert(first!, options)]
      : client.insertBatch([first!, ...others], options)
  }
  const { ids, errors } = await client.insertEach([first!, ...others, first!], options)
  if (errors.length !== 1 || errors[0]!.index !== points.length || ids.at(-1) !== null)
    throw new Error(`a repeated id has the errors ${JSON.stringify(errors)}`)
  const stored = ids.slice(0, -1).map(String)
  if (points.some(({ id }, index) => id !== stored[index]))
    throw new Error('points do not have the ids that the caller chose')
  return stored
}

export function newPoints(
  marker: string,
  count: number,
  random: () => number,
  vector: () => Float32Array,
): OraclePoint[] {
  const hasIds = random() < 0.3
  return Array.from({ length: count }, (_, index) => ({
    ...(hasIds ? { id: randomUUID() } : {}),
    vector: vector(),
    payload: {
      contentType: contentTypes[Math.floor(random() * contentTypes.length)]!,
      content: contentOf(marker, index, 'ä€😀 '.repeat(Math.floor(random() ** 8 * 2000))),
      attributes: new Map<string, AttributeValue>([
        ['insert', marker],
        ['odd', [index % 2 === 1, new Map([['place', 'ä']])]],
      ]),
      ...(random() < 0.3 ? { expiresAtUs: farUs } : {}),
    },
  }))
}

/** In the year 2100. */
const farUs = 4_102_444_800_123_456
