import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type V8Flags, v8Flags, withV8Flags } from '../base/runtime.ts'
import type { KernelExports } from './kernel-exports.ts'
import { selfTest, selfTestPages } from './self-test.ts'

export const kernelVariants = ['relaxed', 'simd'] as const
export type KernelVariant = (typeof kernelVariants)[number]

/** The compiled kernels. They can be posted to a worker thread, which then does not compile them again. */
export interface KernelModule {
  readonly variant: KernelVariant
  /** Whether V8 joined pairs of 128-bit operations into 256-bit ones. */
  readonly isWide: boolean
  readonly module: WebAssembly.Module
}

/**
 * Compiles the kernels: the requested build, or the fastest build that this engine accepts and runs correctly.
 *
 * V8 can join pairs of 128-bit operations into 256-bit ones, which makes a search 1.1 to 1.2 times as fast. V8 calls
 * this experimental, so it is used only if the result passes the self-test. All code is optimized immediately, not only
 * when a function has become hot, so that the tested code is the code that runs. Without flags, for a version of Node
 * that CI does not run, V8 compiles the kernels as it compiles all WebAssembly.
 *
 * @throws WebAssembly.CompileError if the requested build, or every build, is refused
 */
export function loadKernels(
  requested?: KernelVariant,
  isWide?: boolean,
  flags: V8Flags = v8Flags(),
): KernelModule {
  const canWiden = flags.widenWasm.length > 0
  const widths = isWide === undefined ? (canWiden ? [true, false] : [false]) : [isWide]
  const builds = (requested === undefined ? kernelVariants : [requested]).flatMap((variant) =>
    widths.map((wide) => ({ variant, isWide: wide })),
  )
  let refusal: unknown
  for (const build of builds) {
    const url = new URL(`./generated/kernels-${build.variant}.wasm`, import.meta.url)
    const bytes = readFileSync(fileURLToPath(url))
    try {
      const kernels = { ...build, module: compile(bytes, build.isWide, flags) }
      const fault = faultOf(kernels)
      if (fault === undefined) return kernels
      refusal = new WebAssembly.CompileError(`the ${build.variant} kernels failed their self-test: ${fault}`)
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error
      refusal = error
    }
  }
  throw refusal
}

/** The flags apply to this module alone. */
function compile(bytes: Buffer, isWide: boolean, { optimizeWasm, widenWasm }: V8Flags): WebAssembly.Module {
  // V8 caches compiled modules by their bytes. An empty custom section distinguishes the two builds.
  const mark = Buffer.from([0, 2, 1, isWide ? 0x77 : 0x6e])
  return withV8Flags(
    isWide ? [...optimizeWasm, ...widenWasm] : optimizeWasm,
    () => new WebAssembly.Module(Buffer.concat([bytes, mark])),
  )
}

function faultOf(kernels: KernelModule): string | undefined {
  const memory = new WebAssembly.Memory({ initial: selfTestPages, maximum: 65_536, shared: true })
  return selfTest(instantiateKernels(kernels, memory), memory)
}

/** Instantiates the kernels over `memory`, which must be shared and at most 65,536 pages. */
export function instantiateKernels({ module }: KernelModule, memory: WebAssembly.Memory): KernelExports {
  // V8 reads the length of a memory from another thread before it subscribes to its growth. If the memory grows in
  // between, this thread would not know, and reading the new part would trap. Growing by zero pages updates the length.
  memory.grow(0)
  const abort = (): never => {
    throw new Error('a kernel called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as KernelExports
}
