import { randomUUID } from 'node:crypto'
import { Latencies } from './latencies.ts'
import { connectGrpc, connectHttp, type Sender } from './load-connections.ts'
import type { LoadCounted, LoadPlan, WireRequest } from './load-plan.ts'
import { Pacer } from './pacer.ts'

/**
 * One load generator: receives a plan from its parent, reports when the counted part begins, sends the result
 * and exits.
 */
process.once('message', (plan: LoadPlan) => {
  void generate(plan).then((result) => process.send!(result, () => process.exit()))
})

async function generate(plan: LoadPlan): Promise<LoadCounted> {
  const connect = plan.transport === 'grpc' ? connectGrpc : connectHttp
  const sender = await connect(plan.port, plan.connections, plan.waitingMax)
  if (plan.warmupSeconds > 0) {
    const { warmupSeconds: seconds } = plan
    await new Load({ ...plan, seconds }, sender).closed()
  }
  process.send!('counting')
  const load = new Load(plan, sender)
  const started = performance.now()
  if (plan.rate === undefined) await load.closed()
  else await load.open(plan.rate)
  return load.result((performance.now() - started) / 1000)
}

class Load {
  readonly #plan: LoadPlan
  readonly #sender: Sender
  readonly #latencies = new Latencies()
  #next = 0
  #refused = 0
  #failed = 0

  constructor(plan: LoadPlan, sender: Sender) {
    this.#plan = plan
    this.#sender = sender
  }

  /** Sends requests as fast as answers arrive. */
  async closed(): Promise<void> {
    const { inFlight, seconds } = this.#plan
    const end = performance.now() + seconds * 1000
    const loop = async (): Promise<void> => {
      while (performance.now() < end) {
        const begun = performance.now()
        await this.#send(begun)
        // A request refused locally, without a round trip, must not make this loop spin.
        if (performance.now() - begun < 0.01) await new Promise((resolve) => setTimeout(resolve, 1))
      }
    }
    await Promise.all(Array.from({ length: inFlight }, loop))
  }

  /** Sends requests at a steady rate, regardless of the answers. */
  async open(rate: number): Promise<void> {
    const count = Math.max(1, Math.ceil(rate * this.#plan.seconds))
    const pacer = new Pacer(Math.min(tickMillisecondsMax, Math.max(tickMillisecondsMin, 1000 / rate)))
    await pacer.tick()
    const started = performance.now()
    const sent: Promise<void>[] = []
    while (sent.length < count) {
      const due = Math.min(count, 1 + Math.floor(((performance.now() - started) * rate) / 1000))
      while (sent.length < due) sent.push(this.#send(started + (sent.length * 1000) / rate))
      await pacer.tick()
    }
    await Promise.all(sent)
    await pacer.close()
  }

  async #send(due: number): Promise<void> {
    const { requests } = this.#plan
    const outcome = await this.#sender.send(withNewIds(requests[this.#next++ % requests.length]!))
    if (outcome === 'refused') this.#refused += 1
    else if (outcome === 'failed') this.#failed += 1
    else this.#latencies.record(performance.now() - due)
  }

  result(seconds: number): LoadCounted {
    return { buckets: this.#latencies.buckets, refused: this.#refused, failed: this.#failed, seconds }
  }
}

/** Waking up more often would take CPU time from the server. */
const tickMillisecondsMin = 0.25
/** A request that is due just after a tick waits for the next tick, at most this long. */
const tickMillisecondsMax = 0.5

function withNewIds(request: WireRequest): WireRequest {
  if (request.idsAt === undefined) return request
  const body = Buffer.from(request.body)
  for (const at of request.idsAt) body.write(randomUUID(), at)
  return { ...request, body }
}
