import { randomUUID } from 'node:crypto'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectGrpc, connectHttp, type Sender } from './load-connections.ts'
import {
  type LoadPlan,
  type LoadResult,
  type Percentile,
  percentiles,
  type WireRequest,
} from './load-plan.ts'

/** One load generator: takes a plan from its parent, sends back what came of it, and ends. */
process.once('message', (plan: LoadPlan) => {
  void generate(plan).then((result) => process.send!(result, () => process.exit()))
})

async function generate(plan: LoadPlan): Promise<LoadResult> {
  const connect = plan.transport === 'grpc' ? connectGrpc : connectHttp
  const sender = await connect(plan.port, plan.concurrency)
  const load = new Load(plan, sender)
  const started = performance.now()
  if (plan.rate === undefined) await load.closed()
  else await load.open(plan.rate)
  return load.result((performance.now() - started) / 1000)
}

class Load {
  readonly #plan: LoadPlan
  readonly #sender: Sender
  readonly #histogram = createHistogram()
  #next = 0
  #failed = 0

  constructor(plan: LoadPlan, sender: Sender) {
    this.#plan = plan
    this.#sender = sender
  }

  /** As fast as answers come. */
  async closed(): Promise<void> {
    const { concurrency, seconds } = this.#plan
    const end = performance.now() + seconds * 1000
    const loop = async (): Promise<void> => {
      while (performance.now() < end) await this.#send(performance.now())
    }
    await Promise.all(Array.from({ length: concurrency }, loop))
  }

  /** At a steady rate, whatever the answers do. */
  async open(rate: number): Promise<void> {
    const count = Math.ceil(rate * this.#plan.seconds)
    const started = performance.now()
    const sent: Promise<void>[] = []
    while (sent.length < count) {
      const due = Math.min(count, Math.floor(((performance.now() - started) * rate) / 1000))
      while (sent.length < due) sent.push(this.#send(started + (sent.length * 1000) / rate))
      await sleep(1)
    }
    await Promise.all(sent)
  }

  async #send(due: number): Promise<void> {
    const { requests } = this.#plan
    const succeeded = await this.#sender.send(withNewIds(requests[this.#next++ % requests.length]!))
    if (!succeeded) this.#failed += 1
    this.#histogram.record(Math.max(1, Math.round((performance.now() - due) * 1000)))
  }

  result(seconds: number): LoadResult {
    const entries = percentiles.map((each) => [each, this.#histogram.percentile(Number(each)) / 1000])
    const milliseconds = Object.fromEntries(entries) as Record<Percentile, number>
    return { answered: this.#histogram.count, failed: this.#failed, seconds, milliseconds }
  }
}

function withNewIds(request: WireRequest): WireRequest {
  if (request.idsAt === undefined) return request
  const body = Buffer.from(request.body)
  for (const at of request.idsAt) body.write(randomUUID(), at)
  return { ...request, body }
}
