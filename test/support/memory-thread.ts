import { parentPort, workerData } from 'node:worker_threads'
import { instantiateKernels } from '../../src/kernels/wasm-module.ts'

/** Instantiates the kernels over each memory that it is given, and says how long it takes it to be when asked. */
const port = parentPort!
let memory: WebAssembly.Memory | undefined

port.on('message', (message: { readonly memory: WebAssembly.Memory } | 'length') => {
  if (message === 'length') {
    port.postMessage(memory!.buffer.byteLength)
    return
  }
  memory = message.memory
  instantiateKernels(workerData, memory)
})
port.postMessage('up')
