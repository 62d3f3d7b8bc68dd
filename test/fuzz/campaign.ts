import assert from 'node:assert/strict'
import { callFamily } from './call-inputs.ts'
import { Dice } from './dice.ts'
import { extendedFamily, fuzzedCollections } from './extended-inputs.ts'
import { httpFamily } from './http-inputs.ts'
import { http2Family } from './http2-inputs.ts'
import { type Family, type Input, inTime, type World } from './input.ts'
import { jsonFamily } from './json-inputs.ts'
import { protobufFamily } from './protobuf-inputs.ts'
import { bytesOf, shrunk } from './shrink.ts'
import { apiKey, dimension, type StoredPoint, Target } from './target.ts'
import { Witness } from './witness.ts'

/**
 * Sends hostile inputs of all families concurrently to one running service, while a witness sends valid requests on
 * separate connections. Besides every answer, it checks that the process survives, that its memory stays within a
 * bound, and that its log contains neither internal errors nor the key. At the end and after a restart, the service
 * must have exactly the acknowledged points, unchanged.
 */

export const families: readonly Family[] = [
  jsonFamily,
  protobufFamily,
  extendedFamily,
  httpFamily,
  callFamily,
  http2Family,
]

export interface CampaignOptions {
  readonly seed: number
  readonly inputs: number
  /** Called now and then with the progress. */
  readonly onProgress?: (done: number) => void
}

export interface CampaignResult {
  /** By family: the answers, and how often each occurred. */
  readonly answers: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly inputs: number
  readonly storedPoints: number
  readonly witnessed: number
  readonly slowestWitnessMs: number
  readonly startBytes: number
  readonly peakBytes: number
}

/** Growth above the start: queues, buffers and caches up to their settings, plus the limit of the heap. */
const memoryGrowthMax = 512 * 1024 * 1024

/** @throws FuzzFailure with the reduced input */
export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  await using target = await Target.start()
  const world = await storeFirstPoints(target)
  await using witness = new Witness(target)
  const startBytes = await target.metric('process_resident_memory_bytes')
  const run = new Run(options, target, world, witness)
  await run.all()
  await witness.stop()
  assert.ok(
    witness.peakBytes < startBytes + memoryGrowthMax,
    `memory grew from ${startBytes} to ${witness.peakBytes} bytes`,
  )
  checkLog(target)
  await checkStored(target)
  assert.equal(await target.restart(), 0, 'the service exits cleanly')
  await checkStored(target)
  return {
    answers: run.answers,
    inputs: run.done,
    storedPoints: target.ledger.size,
    witnessed: witness.requests,
    slowestWitnessMs: witness.slowestMs,
    startBytes,
    peakBytes: witness.peakBytes,
  }
}

/** Sends one input again, alone. @returns the fault in the answer; undefined if it was right */
export async function replay(seed: number, name: string, index: number): Promise<string | undefined> {
  await using target = await Target.start()
  const world = await storeFirstPoints(target)
  const family = families.find((each) => each.name === name)
  assert.ok(family !== undefined, `no family ${name}`)
  const input = family.make(diceFor(seed, family, index), world)
  const reason = await faultOf(target, input)
  return reason && explained(input, reason, `${name}:${index}`, seed)
}

export class FuzzFailure extends Error {
  override readonly name = 'FuzzFailure'
}

interface Failure {
  readonly id: string
  readonly input: Input
  readonly reason: string
}

class Run {
  readonly answers: Map<string, Map<string, number>> = new Map()
  done = 0
  readonly #options: CampaignOptions
  readonly #target: Target
  readonly #world: World
  readonly #witness: Witness
  readonly #underWay = new Map<string, Input>()
  #failure: Failure | undefined

  constructor(options: CampaignOptions, target: Target, world: World, witness: Witness) {
    this.#options = options
    this.#target = target
    this.#world = world
    this.#witness = witness
  }

  async all(): Promise<void> {
    await Promise.all(families.map((family) => this.#family(family)))
    if (!this.#target.isAlive) await this.#blame()
    if (this.#failure !== undefined) throw await this.#explain(this.#failure)
    if (this.#witness.failure !== undefined) throw this.#witness.failure
  }

  async #family(family: Family): Promise<void> {
    const count = Math.ceil((this.#options.inputs * family.share) / 100)
    const answers = new Map<string, number>()
    this.answers.set(family.name, answers)
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < count && this.#goesOn) {
        const index = next
        next += 1
        const answer = await this.#one(family, index)
        answers.set(answer, (answers.get(answer) ?? 0) + 1)
        this.done += 1
        if (this.done % 10_000 === 0) this.#options.onProgress?.(this.done)
      }
    }
    await Promise.all(Array.from({ length: family.lanes }, lane))
  }

  get #goesOn(): boolean {
    return this.#failure === undefined && this.#witness.failure === undefined && this.#target.isAlive
  }

  async #one(family: Family, index: number): Promise<string> {
    const id = `${family.name}:${index}`
    const input = family.make(diceFor(this.#options.seed, family, index), this.#world)
    this.#underWay.set(id, input)
    try {
      const { answer, fault } = await input.send(this.#target)
      if (fault !== undefined) this.#failure ??= { id, input, reason: fault }
      if (this.#target.isAlive) this.#underWay.delete(id)
      return answer
    } catch (error) {
      this.#failure ??= { id, input, reason: (error as Error).message }
      return 'no answer'
    }
  }

  /** Finds the input in flight that ends the process alone, if there is one. */
  async #blame(): Promise<void> {
    const reason = await this.#target.ended
    for (const [id, input] of this.#underWay) {
      await using other = await Target.start()
      await storeFirstPoints(other)
      await input.send(other).catch(() => {})
      if (other.isAlive) continue
      this.#failure = { id, input, reason }
      return
    }
    throw new FuzzFailure(
      `seed ${this.#options.seed}: ${reason}; in flight were ${[...this.#underWay.keys()].join(', ')}, none of which reproduces it alone`,
    )
  }

  async #explain({ id, input, reason }: Failure): Promise<FuzzFailure> {
    return new FuzzFailure(explained(await this.#small(input), reason, id, this.#options.seed))
  }

  /** The input reduced to the parts needed to make the service fail in any way. */
  async #small(input: Input): Promise<Input> {
    const { withParts } = input
    if (withParts === undefined) return input
    await using target = await Target.start()
    await storeFirstPoints(target)
    const parts = input.parts.length === 1 ? bytesOf(input.parts[0]!) : input.parts
    const fails = async (others: readonly Buffer[]): Promise<boolean> =>
      target.isAlive && (await faultOf(target, withParts(others))) !== undefined
    const smallest = await shrunk(parts, fails, 300)
    return withParts([Buffer.concat(smallest)])
  }
}

async function faultOf(target: Target, input: Input): Promise<string | undefined> {
  try {
    return (await input.send(target)).fault
  } catch (error) {
    return (error as Error).message
  }
}

function explained(input: Input, reason: string, id: string, seed: number): string {
  const bytes = Buffer.concat(input.parts)
  const shown =
    bytes.length > 4000 ? `${bytes.subarray(0, 4000).toString('latin1')}…` : bytes.toString('latin1')
  return [
    `seed ${seed}, input ${id}: ${reason}`,
    `  ${input.label}, ${bytes.length} bytes: ${JSON.stringify(shown)}`,
    `  again: npm run test:fuzz -- --seed ${seed} --only ${id}`,
  ].join('\n')
}

/** Each input has separate dice, so that it is the same whatever else runs. */
function diceFor(seed: number, family: Family, index: number): Dice {
  return new Dice(
    Math.imul(seed, 0x9e3779b1) ^
      Math.imul(index + 1, 0x85ebca6b) ^
      Math.imul(families.indexOf(family) + 1, 0xc2b2ae35),
  )
}

/** Stores the points that must stay unchanged, through both transports. */
async function storeFirstPoints(target: Target): Promise<World> {
  const dice = new Dice(1)
  const clients = target.clients()
  for (const name of fuzzedCollections) await clients[1].collections.put(name, { dimension })
  for (const client of clients) {
    const points: StoredPoint[] = dice.list(100, (index) => ({
      vector: Float32Array.from(dice.list(dimension, () => dice.float())),
      payload: { contentType: dice.pick(['Text', 'Image'] as const), content: `point ${index} 🦊\u0000` },
    }))
    const ids = await client.insertBatch(points)
    for (const [index, id] of ids.entries()) target.ledger.set(id, points[index]!)
    await client.close()
  }
  return { dimension, stored: [...target.ledger.keys()] }
}

function checkLog({ log }: Target): void {
  const faults = log
    .split('\n')
    .filter((line) => /"level":(50|60)/.test(line) || (line !== '' && !line.startsWith('{')))
  assert.deepEqual(faults, [], 'the log contains internal errors')
  assert.ok(!log.includes(apiKey), 'the log contains the key')
}

async function checkStored(target: Target): Promise<void> {
  assert.equal(
    await target.metric('vicinal_points'),
    target.ledger.size,
    'as many points as were acknowledged',
  )
  const [grpc, http] = target.clients()
  const rest = [...target.ledger]
  const lane = async (): Promise<void> => {
    for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
      const [id, point] = next
      const client = rest.length % 2 === 0 ? grpc : http
      assert.deepEqual(await inTime(client.get(id), 'a stored point'), { id, ...point })
    }
  }
  await Promise.all(Array.from({ length: 16 }, lane))
  await Promise.all([grpc.close(), http.close()])
}
