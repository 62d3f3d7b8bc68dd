import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import type { KernelExports } from './kernel-exports.ts'
import { selfTest, selfTestPages } from './self-test.ts'

export const kernelVariants = ['relaxed', 'simd'] as const
export type KernelVariant = (typeof kernelVariants)[number]

/** The compiled kernels; can be posted to a worker thread, which then need not compile them again. */
export interface KernelModule {
  readonly variant: KernelVariant
  /** Whether V8 joined pairs of 128-bit operations into 256-bit ones. */
  readonly isWide: boolean
  readonly module: WebAssembly.Module
}

/**
 * Compiles the kernels: the asked-for build, or the fastest one that this engine takes and computes rightly.
 *
 * V8 can join pairs of 128-bit operations into 256-bit ones, which makes a search 1.1 to 1.2 times as fast, but
 * calls that experimental. So it is used only where the result passes the self-test: optimized code is made at
 * once, not when a function has become hot, so that what is tested is what runs.
 *
 * @throws WebAssembly.CompileError when the asked-for build, or every one, is refused
 */
export function loadKernels(asked?: KernelVariant, isWide?: boolean): KernelModule {
  const builds = (asked === undefined ? kernelVariants : [asked]).flatMap((variant) =>
    (isWide === undefined ? [true, false] : [isWide]).map((wide) => ({ variant, isWide: wide })),
  )
  let refusal: unknown
  for (const build of builds) {
    const url = new URL(`./generated/kernels-${build.variant}.wasm`, import.meta.url)
    const bytes = readFileSync(fileURLToPath(url))
    try {
      const kernels = { ...build, module: compile(bytes, build.isWide) }
      const fault = faultOf(kernels)
      if (fault === undefined) return kernels
      refusal = new WebAssembly.CompileError(`the ${build.variant} kernels computed wrongly here: ${fault}`)
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error
      refusal = error
    }
  }
  throw refusal
}

/** With V8's optimizing compiler alone; its options count for this one module. */
function compile(bytes: Buffer, isWide: boolean): WebAssembly.Module {
  const options = ['liftoff', 'wasm-lazy-compilation']
  for (const option of options) setFlagsFromString(`--no-${option}`)
  if (isWide) setFlagsFromString('--experimental-wasm-revectorize')
  try {
    // V8 keeps one compiled form of equal bytes: an empty section of its own tells the two apart.
    const mark = Buffer.from([0, 2, 1, isWide ? 0x77 : 0x6e])
    return new WebAssembly.Module(Buffer.concat([bytes, mark]))
  } finally {
    for (const option of options) setFlagsFromString(`--${option}`)
    if (isWide) setFlagsFromString('--no-experimental-wasm-revectorize')
  }
}

function faultOf(kernels: KernelModule): string | undefined {
  const memory = new WebAssembly.Memory({ initial: selfTestPages, maximum: 65_536, shared: true })
  return selfTest(instantiateKernels(kernels, memory), memory)
}

/** Instantiates the kernels over `memory`, which must be shared and at most 65,536 pages. */
export function instantiateKernels({ module }: KernelModule, memory: WebAssembly.Memory): KernelExports {
  // V8 notes the length of a memory that comes from another thread before it asks to be told of its growing: what grows
  // in between would be missing here, and reading it a fault. Growing by nothing makes it look again.
  memory.grow(0)
  const abort = (): never => {
    throw new Error('a kernel called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as KernelExports
}
