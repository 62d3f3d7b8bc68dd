import { parentPort, workerData } from 'node:worker_threads'
import type { ApiContext } from '../api/call.ts'
import { DatabaseError } from '../base/errors.ts'
import { createRelayedLogger } from '../base/log.ts'
import { ServiceMetrics } from '../base/metrics.ts'
import { Doorbell } from '../engine/doorbell.ts'
import { Exchange } from './exchange.ts'
import { FrontState } from './front-state.ts'
import type { AskedOfFront, AskedOfMain, FrontSetup, ListenOrder, Ports } from './messages.ts'
import { RecordReceiver, RecordRing, RecordSender } from './record-ring.ts'
import { RemoteDatabase } from './remote-database.ts'
import { startTransports, type Transports } from './transports.ts'

/** A front thread, the composition root of its parts: see messages.ts for what it hears and says. */
const setup: FrontSetup = workerData
const { config } = setup
const state = new FrontState(setup.state)
const doorbell = new Doorbell(setup.frontDoorbell)
const mainDoorbell = new Doorbell(setup.mainDoorbell)
let { keys } = setup
let transports: Transports | undefined

const exchange = new Exchange<AskedOfMain, AskedOfFront>(parentPort!, {
  listen,
  serve: () => transports?.setServing(true),
  figures: () => metrics.figures(),
  setKeys(next) {
    keys = next
    transports?.setKeys(next)
  },
  close: () => transports?.close(config.shutdownTimeoutMs),
  large: (buffer) => receiver.receiveLarge(buffer),
})
const sender = new RecordSender(new RecordRing(setup.requests), mainDoorbell, (buffer) =>
  exchange.tell('large', buffer),
)
const database = new RemoteDatabase({ state, sender, exchange, maxWaitingBytes: config.maxQueuedWriteBytes })
const receiver = new RecordReceiver(new RecordRing(setup.answers), mainDoorbell, (record, isLarge) =>
  database.receive(record, isLarge),
)
const logger = createRelayedLogger(config.logLevel, (line) => exchange.tell('log', line))
const metrics = new ServiceMetrics({
  ofProcess: false,
  others: () => exchange.ask('othersFigures'),
})
const context: ApiContext = {
  get database() {
    if (!state.isReady) throw new DatabaseError('not_ready', 'the stored points are still loading')
    return database
  },
  limits: { maxLimit: config.maxLimit, hnswEf: config.hnswEf },
}

hear()

async function listen({ ports, share }: ListenOrder): Promise<Ports> {
  const isReady = (): boolean => state.isReady
  const writesBlocked = () => state.writesBlocked
  const parts = { config, context, metrics, logger, keys, isReady, writesBlocked, ports, share }
  transports = await startTransports(parts)
  return transports.ports
}

/** Takes in the engine's answers, and sends what waits for room, whenever the main thread has rung. */
function hear(): void {
  turn()
  doorbell.listen(hear)
  // What came before the doorbell could ring for it.
  turn()
}

function turn(): void {
  receiver.drain(Number.POSITIVE_INFINITY)
  sender.flush()
}
