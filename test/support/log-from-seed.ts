import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError } from '../../src/base/errors.ts'
import { idBytes, idFromBytes } from '../../src/base/ids.ts'
import type { NewPoint } from '../../src/base/point.ts'
import { appendBatch } from '../../src/cluster/log/publisher.ts'
import { encodeRequest } from '../../src/cluster/log/request-codec.ts'
import type { LoggedRequest } from '../../src/write/requests.ts'
import { SharedMemoryLog } from './memory-log.ts'
import { seededRandom } from './random.ts'

/** A read-only view of the log: other processes that make the same log would not have added records. */
export function readOnly(log: SharedMemoryLog): Pick<SharedMemoryLog, 'connect'> {
  const append = async (): Promise<never> => {
    throw new DatabaseError('not_ready', 'this log is only read')
  }
  return { connect: () => ({ ...log.connect(), append }) }
}

/**
 * A read-only view that delivers a record only once `isDue` allows it.
 *
 * @param isDue called with the position of the next record and the position from which the reader began
 */
export function pacedLog(
  log: SharedMemoryLog,
  isDue: (position: number, from: number) => boolean,
): Pick<SharedMemoryLog, 'connect'> {
  const connect: typeof log.connect = () => {
    const connection = readOnly(log).connect()
    return {
      ...connection,
      async *read(from, signal) {
        for await (const entry of connection.read(from, signal)) {
          while (!isDue(entry.position, from) && !signal.aborted) await delay(1)
          yield entry
        }
      },
    }
  }
  return { connect }
}

/** A log of the given number of records, the same for each seed: inserts, puts, patches, removals and expiry. */
export async function logFromSeed(seed: number, records: number): Promise<SharedMemoryLog> {
  const random = seededRandom(seed)
  let nowMs = 1_700_000_000_000
  const log = new SharedMemoryLog({ nowMs: () => nowMs })
  const connection = log.connect()
  const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, () => Math.floor(random() * 256))
  const ids = Array.from({ length: 40 }, () => idFromBytes(bytes(idBytes)))
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!
  const point = (content: string): NewPoint => ({
    vector: Float32Array.of(random(), random(), random(), random()),
    payload: {
      contentType: 'Text',
      content,
      attributes: new Map([['n', Math.floor(random() * 10)]]),
      ...(random() < 0.3 ? { expiresAtUs: (nowMs + Math.floor(random() * 500)) * 1000 } : {}),
    },
  })
  const request = (content: string): LoggedRequest => {
    const id = pick(ids)
    const kinds: readonly (() => LoggedRequest)[] = [
      () => ({
        kind: 'insert',
        points: Array.from({ length: 1 + Math.floor(random() * 4) }, () => point(content)),
        onError: 'abort',
        idSeed: bytes(16),
        ...(random() < 0.3 ? { identity: { keyHash: bytes(16), bodyHash: bytes(16) } } : {}),
      }),
      () => ({
        kind: 'put',
        id,
        point: point(content),
        when: random() < 0.3 ? { kind: 'absent' } : undefined,
      }),
      () => ({ kind: 'patch', id, patch: { content, set: new Map([['n', 1]]) }, when: undefined }),
      () => ({ kind: 'remove', id }),
      () => ({ kind: 'expire', ids: ids.slice(0, 20) }),
    ]
    return pick(kinds)()
  }
  for (let number = 1; number <= records; number += 1) {
    nowMs += Math.floor(random() * 100)
    const payload = encodeRequest({ request: request(`record ${number}`), timeUs: nowMs * 1000 })
    await appendBatch(connection, {
      collection: 'default',
      origin: 'seed',
      request: number,
      payload,
      partition: undefined,
    })
  }
  return log
}
