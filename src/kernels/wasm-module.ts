import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

export const kernelVariants = ['relaxed', 'simd'] as const
export type KernelVariant = (typeof kernelVariants)[number]

/** The compiled kernels; can be posted to a worker thread, which then need not compile them again. */
export interface KernelModule {
  readonly variant: KernelVariant
  readonly module: WebAssembly.Module
}

/**
 * What src/kernels/assembly/index.ts exports. Addresses are byte offsets into the memory the module was
 * instantiated over; `n` is the padded row length in components, a multiple of 16; metrics are numbers.
 */
export interface KernelExports {
  euclidean32(a: number, b: number, n: number): number
  manhattan32(a: number, b: number, n: number): number
  dot32(a: number, b: number, n: number): number
  hamming(a: number, b: number, n: number): number
  dot64(a: number, b: number, n: number): number
  distance64(metric: number, a: number, b: number, n: number, aa: number, bb: number): number
  scan(
    metric: number,
    query: number,
    queryNorm: number,
    n: number,
    rows: number,
    live: number,
    sequences: number,
    norms: number,
    from: number,
    to: number,
    pool: number,
    k: number,
    count: number,
  ): number
  offerRow(
    metric: number,
    query: number,
    queryNorm: number,
    n: number,
    row: number,
    norm: number,
    sequence: number,
    slot: number,
    pool: number,
    k: number,
    count: number,
  ): number
  sortPool(pool: number, k: number, count: number): void
  encodeStored(row: number, n: number, width: number, code: number): void
  encodeQuery(row: number, n: number, width: number, code: number): void
  attachGraph(header: number, scratch: number, pool: number, visited: number): void
  insertSlot(slot: number, level: number, measure: number): number
  searchGraph(
    metric: number,
    measure: number,
    query: number,
    queryNorm: number,
    ef: number,
    rerank: number,
    nearest: number,
    k: number,
    count: number,
  ): number
  walkGraph(measure: number, query: number, queryNorm: number, ef: number): number
  encodeSlot(slot: number): void
  repairRange(from: number, to: number, measure: number): number
  releaseLeaving(): void
  adopt(slot: number, measure: number): void
}

/**
 * Compiles the kernels: the asked-for variant, or the fastest one that this engine takes.
 *
 * @throws WebAssembly.CompileError when the asked-for variant, or every one, is refused
 */
export async function loadKernels(asked?: KernelVariant): Promise<KernelModule> {
  const candidates = asked === undefined ? kernelVariants : [asked]
  let refusal: unknown
  for (const variant of candidates) {
    const url = new URL(`./generated/kernels-${variant}.wasm`, import.meta.url)
    try {
      return { variant, module: await WebAssembly.compile(await readFile(fileURLToPath(url))) }
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error
      refusal = error
    }
  }
  throw refusal
}

/** Instantiates the kernels over `memory`, which must be shared and at most 65,536 pages. */
export function instantiateKernels({ module }: KernelModule, memory: WebAssembly.Memory): KernelExports {
  const abort = (): never => {
    throw new Error('a kernel called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as KernelExports
}
