import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { v8Flags } from '../base/runtime.ts'
import {
  growKernelMemory,
  instantiateKernels,
  kernelVariants,
  loadKernels,
  newKernelMemory,
} from './wasm-module.ts'

it('a thread sees the full length of a memory that grows while the memory is posted to it', async () => {
  const thread = new Worker(new URL('../../test/support/memory-thread.ts', import.meta.url), {
    workerData: loadKernels(),
  })
  try {
    await once(thread, 'message')
    // Without `memory.grow(0)` in `instantiateKernels`, the thread sees a short memory in one of thirty turns.
    for (let turn = 0; turn < 300; turn += 1) {
      const memory = newKernelMemory(2)
      thread.postMessage({ memory })
      const endMs = performance.now() + (turn % 30) * 0.005
      while (performance.now() < endMs);
      growKernelMemory(memory, 100)
      thread.postMessage('length')
      const [length] = await once(thread, 'message')
      assert.equal(length, memory.buffer.byteLength, `turn ${turn}`)
    }
  } finally {
    await thread.terminate()
  }
})

it('kernels have no data segments, which would overwrite the memory', (test) => {
  for (const variant of kernelVariants) {
    const memory = newKernelMemory(16)
    try {
      instantiateKernels(loadKernels(variant), memory)
    } catch (error) {
      test.diagnostic(`${variant} does not run on this machine: ${(error as Error).message}`)
      continue
    }
    const written = new Uint8Array(memory.buffer).findIndex((byte) => byte !== 0)
    assert.equal(written, -1, `${variant} writes at ${written}`)
  }
})

it('kernels can be compiled while other WebAssembly with indirect calls becomes hot', async () => {
  // In a process of its own: V8 aborts it otherwise, and its flags are those of a whole process.
  const child = join(import.meta.dirname, '../../test/support/indirect-calls-child.ts')
  await promisify(execFile)(process.execPath, [child])
})

it('kernels run without V8 flags on a version of Node for which no flags are known', () => {
  for (const node of ['22.23.3', '25.9.0', '27.0.0']) {
    const kernels = loadKernels(undefined, undefined, v8Flags(node))
    assert.equal(kernels.isWide, false, node)
  }
  assert.ok(v8Flags().widenWasm.length > 0, 'the Node that runs this test has flags')
})
