import { v8Flags } from '../../src/base/runtime.ts'
import { type KernelModule, loadKernels } from '../../src/kernels/wasm-module.ts'

/**
 * The kernels as a Node without known flags compiles them: with a check of every address, which the service does without
 * (docs/decisions/index.md). An address outside the memory is then an error.
 */
export const checkedKernels: KernelModule = loadKernels(undefined, undefined, v8Flags('0'))
