import { parentPort, workerData } from 'node:worker_threads'
import { instantiateKernels } from '../../src/kernels/wasm-module.ts'

/** Instantiates the kernels over each memory that it receives, and reports the length that it sees when asked. */
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
