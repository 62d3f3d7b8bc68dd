import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { LoggedInsert, LoggedRequest } from '../write/requests.ts'
import {
  type Ask,
  checkOwners,
  decodeQuestion,
  encodeOutcome,
  gatherResult,
  type Outcome,
  RecentOutcomes,
} from './outcomes.ts'
import { OwnedPlacement } from './reads/placement.ts'

const position = 9

describe('the answer to a record that other nodes decide about', () => {
  it('comes from an owner, or from another one if that does not answer', async () => {
    const asked: string[] = []
    const result = await gather(put('0700'), {
      ask: async (node, question) => {
        asked.push(node)
        assert.equal(decodeQuestion(question).position, position)
        if (asked.length === 1) throw new DatabaseError('not_ready', 'it is gone')
        return encodeOutcome({ result: { version: 5, created: true } })
      },
    })
    assert.deepEqual(result, { version: 5, created: true })
    assert.equal(new Set(asked).size, 2)
  })

  it('is the refusal of the owner', async () => {
    const refusal = new DatabaseError('precondition_failed', 'the version is 4')
    const ask: Ask = async () => encodeOutcome({ error: refusal })
    await assert.rejects(gather(put('0700'), { ask }), refusal)
  })

  it('does not wait for one owner that hangs', async () => {
    let calls = 0
    const ask: Ask = async () => {
      calls += 1
      if (calls === 1) return await new Promise<never>(() => {})
      return encodeOutcome({ result: true })
    }
    assert.equal(await gather({ kind: 'remove', id: id('0700') }, { ask }), true)
  })

  it('is unknown when no owner answers, and says what to do', async () => {
    const signal = AbortSignal.timeout(100)
    const ask: Ask = async () => {
      throw new DatabaseError('not_ready', 'forgotten')
    }
    await assert.rejects(gather(put('0700'), { ask, signal }), /may have been stored/)
  })

  it('combines the counts of the owners, and counts each point once', async () => {
    const request: LoggedRequest = {
      kind: 'each',
      filter: { kind: 'all', of: [] },
      change: 'delete',
      ids: [id('0100'), id('8000'), id('8001'), id('f000')],
    }
    const counts = new Map([
      [0x01, 1],
      [0x80, 2],
      [0xf0, 1],
    ])
    // Each returns more than it was asked for: the rest comes from another one.
    const ask: Ask = async () => encodeOutcome({ result: counts })
    const own = { result: new Map([[0x01, 1]]), held: PartitionSet.of([0x01]) }
    assert.deepEqual(await gather(request, { ask, own }), counts)
  })

  it('has the ids of an insert and the refusals of all owners', async () => {
    const request = insert([id('0100'), undefined, id('8000'), id('f000')])
    const exists = new DatabaseError('already_exists', 'it exists')
    const ask: Ask = async (_node, question) => {
      const { partitions } = decodeQuestion(question)
      const errors = partitions.has(0x80) ? [{ index: 2, error: exists }] : []
      return encodeOutcome({ result: { ids: [], errors } })
    }
    const { ids, errors } = (await gather(request, { ask })) as {
      readonly ids: readonly (string | null)[]
      readonly errors: readonly { readonly index: number; readonly error: DatabaseError }[]
    }
    assert.deepEqual([ids[0], ids[2], ids[3]], [id('0100'), null, id('f000')])
    assert.match(ids[1]!, /^2a/)
    assert.deepEqual(
      errors.map(({ index, error }) => [index, error.reason, error.message]),
      [[2, 'already_exists', 'it exists']],
    )
  })

  it('is an error before the log has the record when no owner is live', () => {
    const placement = new OwnedPlacement({
      self: 'a',
      owners: () => owners,
      held: () => noPartitions,
      isLive: () => false,
    })
    assert.throws(() => checkOwners(put('0700'), placement), { reason: 'not_ready' })
  })
})

describe('recent outcomes', () => {
  const one = PartitionSet.of([7])

  it('are found for the partitions that the node held', () => {
    const recent = new RecentOutcomes()
    const outcome: Outcome = { result: true, held: PartitionSet.of([7, 8]) }
    recent.add(3, outcome)
    assert.equal(recent.find({ position: 3, partitions: one }), outcome)
    assert.throws(() => recent.find({ position: 3, partitions: PartitionSet.of([7, 9]) }), /did not hold/)
    assert.throws(() => recent.find({ position: 4, partitions: one }), { reason: 'not_ready' })
  })

  it('are evicted, the oldest first, when there are many', () => {
    const recent = new RecentOutcomes()
    for (let at = 1; at <= 20_000; at += 1) recent.add(at, { result: true })
    assert.throws(() => recent.find({ position: 1, partitions: one }), /no longer known here/)
    assert.ok(recent.find({ position: 20_000, partitions: one }))
    const ids = Array.from({ length: 200_000 }, () => null)
    recent.add(20_001, { result: { ids, errors: [] } })
    recent.add(20_002, { result: { ids, errors: [] } })
    assert.throws(() => recent.find({ position: 20_001, partitions: one }), /no longer known here/)
    assert.ok(recent.find({ position: 20_002, partitions: one }))
  })
})

const owners: readonly (readonly string[])[] = Array.from({ length: partitionCount }, (_, partition) =>
  partition < 0x80 ? ['b', 'c'] : ['c', 'd'],
)

async function gather(
  request: LoggedRequest,
  {
    ask,
    own = { result: undefined, held: new PartitionSet() },
    signal = AbortSignal.timeout(60_000),
  }: { readonly ask: Ask; readonly own?: Outcome; readonly signal?: AbortSignal },
): Promise<unknown> {
  const placement = new OwnedPlacement({
    self: 'a',
    owners: () => owners,
    held: () => noPartitions,
    isLive: () => true,
  })
  const options = { self: 'a', placement, ask, retryMs: 1, askMs: 20 }
  return await gatherResult(request, { ...own, position }, options, signal)
}

function id(digits: string): string {
  return `${digits}0000-0000-4000-8000-000000000000`
}

function put(digits: string): LoggedRequest {
  return { kind: 'put', id: id(digits), point: point() }
}

function insert(ids: readonly (string | undefined)[]): LoggedInsert {
  const points = ids.map((each): NewPoint => ({ ...point(), ...(each === undefined ? {} : { id: each }) }))
  return { kind: 'insert', points, onError: 'continue', idSeed: new Uint8Array(16).fill(0x2a) }
}

function point(): NewPoint {
  return { vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } }
}

const noPartitions = new PartitionSet()
