import type { CodeBits } from '../../../src/index/segment.ts'
import type { KernelVariant } from '../../../src/kernels/wasm-module.ts'

/** A kernel build and a code width to use instead of the service's choice. */
export interface Lever {
  readonly name: string
  readonly title: string
  readonly variant: KernelVariant
  readonly isWide: boolean
  readonly codeBits: CodeBits
}

/** Each lever adds one optimization to the previous one. */
export const levers: readonly Lever[] = [
  {
    name: 'vicinal-simd',
    title: 'codes of 7 bits, plain SIMD',
    variant: 'simd',
    isWide: false,
    codeBits: 7,
  },
  {
    name: 'vicinal-relaxed',
    title: '+ relaxed integer dot product',
    variant: 'relaxed',
    isWide: false,
    codeBits: 7,
  },
  {
    name: 'vicinal-wide',
    title: '+ joined into 256 bits',
    variant: 'relaxed',
    isWide: true,
    codeBits: 7,
  },
  {
    name: 'vicinal-4-bits',
    title: '+ codes of 4 bits',
    variant: 'relaxed',
    isWide: true,
    codeBits: 4,
  },
]
