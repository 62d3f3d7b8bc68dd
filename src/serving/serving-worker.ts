import { parentPort, workerData } from 'node:worker_threads'
import { RefusedKeys, type ServiceKeys } from '../base/api-key.ts'
import { createBodyBudgets } from '../base/budgets.ts'
import { createLogger } from '../base/log.ts'
import { type ExposedMetrics, ServiceMetrics, type Transport } from '../base/metrics.ts'
import { keepTicksFast } from '../base/runtime.ts'
import { NotHere } from '../collections/collection-view.ts'
import { LocalReads } from '../collections/local-reads.ts'
import type { MatchingAnswer, MatchingCall } from '../collections/readers.ts'
import { type Ports, startTransports, type ThreadTransports } from '../transports.ts'
import { Line, type LineMessage } from './line.ts'
import { remoteContext } from './remote-engine.ts'
import { engineThread, SharedState, type ThreadSetup } from './thread-setup.ts'

/** A serving thread: both transports, over the engine at the other end of a line. */
const port = parentPort!
const { config, thread, bodies, reads, state }: ThreadSetup = workerData
let transports: ThreadTransports | undefined
/** Keys that have changed while the ports were being opened. */
let newKeys: ServiceKeys | undefined

/** Counts the calls of this thread; the engine's thread adds up those of all threads. */
class ThreadMetrics extends ServiceMetrics {
  override async expose(): Promise<ExposedMetrics> {
    return (await line.ask('metrics')) as ExposedMetrics
  }
}

/** Lets the engine's thread count and log refused keys, so that floods are logged as seldom as on one thread. */
class ThreadRefusedKeys extends RefusedKeys {
  override add(transport: Transport, from: string | undefined): void {
    line.tell('refusedKey', transport, from)
  }
}

keepTicksFast()
const localReads = new LocalReads(reads, (...query) => matching(...query))
const metrics = new ThreadMetrics({ isOfThread: true })
const budgets = createBodyBudgets(config, bodies, thread)
const line: Line = new Line({
  post: (messages) => port.postMessage(messages),
  budget: budgets.answers,
  thread: engineThread,
  answers: {
    start,
    figures: () => metrics.figures(),
    setKeys(next: ServiceKeys) {
      newKeys = next
      transports?.setKeys(next)
    },
    setServing: (isServing: boolean) => transports?.setServing(isServing),
    connections: () => transports?.connections ?? 0,
    askToReconnect: () => transports?.askToReconnect(),
    async close(timeoutMs: number) {
      await transports?.close(timeoutMs)
      await context.audit?.close()
      await localReads.close()
    },
  },
})
port.on('message', (messages: readonly LineMessage[]) => line.receive(messages))

const context = remoteContext(line, new SharedState(state), config, localReads, thread)

/** If it fails, the engine is asked for the whole search, and that fails as it should. */
const matching: MatchingCall = async (...query) =>
  (await line.ask('matching', ...query).catch(() => {
    throw new NotHere()
  })) as MatchingAnswer

/** Opens both ports. Returns the actual ones. */
async function start(ports: Ports, keys: ServiceKeys): Promise<Ports> {
  const logger = createLogger({
    level: config.logLevel,
    pretty: false,
    write: (text) => line.tell('log', text),
  })
  transports = await startTransports({
    config,
    context,
    budgets,
    metrics,
    logger,
    keys,
    refusedKeys: new ThreadRefusedKeys(logger),
    readiness: async () => (await line.ask('readiness')) as readonly string[],
    ports,
    reusePort: true,
    thread,
  })
  if (newKeys !== undefined) transports.setKeys(newKeys)
  return transports.ports
}
