/**
 * Loaded before Node's test runner: the writer threads of stores that are closed serve the next ones. A thread takes
 * 60 ms of processor time to start, nine tenths of what opening a store takes, and the tests open thousands of them. Each
 * store still has a thread to itself while it is open, and everything that it sends and receives is the same. Threads
 * with options of Node, whose disk a test makes fail, are not shared, nor is one that has died. That a thread ends by
 * itself, point-store.test.ts tests with one that is not shared.
 *
 *   store ── Worker ── port ───> module of the thread, as its `parentPort`
 *              └ idle hosts ───> a real thread: runs the module again for each store, with the modules that it imports
 *                                loaded
 */
import { EventEmitter } from 'node:events'
import nodeModule from 'node:module'
import { join } from 'node:path'
import workerThreads, { type MessagePort, type Worker, type WorkerOptions } from 'node:worker_threads'

interface Start {
  readonly module: string
  readonly workerData: unknown
  readonly port: MessagePort
}

const { Worker: RealWorker, MessageChannel, isMainThread, parentPort } = workerThreads
const isShared = (module: string): boolean => /\/writer-thread\.ts$/.test(module)
/** The directory of a built package whose serving threads are used: they start in half of the time. */
const built = process.env.VICINAL_TEST_BUILT
const servingModule = '/serving/serving-worker.ts'
const hostMark = 'a host of writer threads'

if (isMainThread) {
  workerThreads.Worker = new Proxy(RealWorker, {
    construct(_, [module, options = {}]: [string | URL, WorkerOptions?]) {
      if (built !== undefined && String(module).endsWith(servingModule)) {
        return new RealWorker(join(built, servingModule.replace('.ts', '.js')), options)
      }
      if (options.execArgv !== undefined || !isShared(String(module))) return new RealWorker(module, options)
      return new LentThread(String(module), options.workerData)
    },
  })
  nodeModule.syncBuiltinESMExports()
} else if (workerThreads.workerData === hostMark) serve(parentPort!)

/** The hosts that serve no store. */
const idle: Host[] = []
/** Stores that a test has open at once are few. */
const idleMax = 8

interface Host {
  readonly thread: Worker
  lentTo: LentThread | undefined
}

/** What a store sees of its thread. */
class LentThread extends EventEmitter {
  readonly #port: MessagePort
  readonly #host: Host
  /** Resolves after the last message of the thread. */
  readonly closed: Promise<void>

  constructor(module: string, workerData: unknown) {
    super()
    const { port1, port2 } = new MessageChannel()
    this.#port = port1.on('message', (message: unknown) => this.emit('message', message))
    this.closed = new Promise((resolve) => port1.once('close', resolve))
    this.#host = idle.pop() ?? startHost()
    this.#host.lentTo = this
    this.#host.thread.ref()
    this.#host.thread.postMessage({ module, workerData, port: port2 } satisfies Start, [port2])
  }

  postMessage(message: unknown, transferred: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transferred)
  }

  unref(): void {
    this.#port.unref()
    this.#host.thread.unref()
  }
}

function startHost(): Host {
  const thread = new RealWorker(new URL(import.meta.url), { workerData: hostMark, execArgv: [] })
  const host: Host = { thread, lentTo: undefined }
  thread.on('message', () => {
    const { lentTo } = host
    host.lentTo = undefined
    thread.unref()
    if (idle.length < idleMax) idle.push(host)
    else void thread.terminate()
    void lentTo!.closed.then(() => lentTo!.emit('exit', 0))
  })
  thread.on('error', (error) => host.lentTo?.emit('error', error))
  thread.on('exit', (code) => {
    if (idle.includes(host)) idle.splice(idle.indexOf(host), 1)
    host.lentTo?.emit('exit', code)
  })
  return host
}

/** In the host: runs a module for each store, until the module closes its port or listens to nothing. */
function serve(own: MessagePort): void {
  let runs = 0
  own.on('message', async ({ module, workerData, port }: Start) => {
    runs += 1
    Object.assign(workerThreads, { workerData, parentPort: port })
    nodeModule.syncBuiltinESMExports()
    port.once('close', () => own.postMessage('idle'))
    await import(`${module}?run=${runs}`)
    if (port.listenerCount('message') === 0) port.close()
  })
}
