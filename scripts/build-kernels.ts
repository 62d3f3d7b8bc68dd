import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { PAGES_MAX } from '../src/kernels/memory-format.ts'

/** The builds of the kernels: with relaxed SIMD for engines that support it, and with plain SIMD128 for all others. */
const variants = {
  relaxed: ['simd', 'relaxed-simd', 'threads', 'bulk-memory'],
  simd: ['simd', 'threads', 'bulk-memory'],
}

/** Memory for the text, the numbers, and reads beyond their ends; see numbers.ts. */
const numbersPages = 22

/** Memory for a block of numbers, one byte per ordinal, and the bitmap; see column-filters.ts. */
const columnPages = 4

/**
 * Compiles the AssemblyScript kernels to src/kernels/generated/. kernels-<variant>.wasm and words.wasm use memory
 * shared between threads, the former with 64-bit addresses; numbers.wasm and column-filters.wasm have their own memory.
 */
export function buildKernels(root: string): void {
  mkdirSync(join(root, 'src/kernels/generated'), { recursive: true })
  const shared = ['--importMemory', '--sharedMemory', '--initialMemory', '1', '--maximumMemory']
  const wide = [...shared, String(PAGES_MAX), '--transform', './scripts/memory-64.ts']
  for (const [variant, features] of Object.entries(variants)) {
    const enabled = features.flatMap((feature) => ['--enable', feature])
    compile(root, 'index', `kernels-${variant}`, [...enabled, ...wide])
  }
  const plain = variants.simd.flatMap((feature) => ['--enable', feature])
  compile(root, 'words', 'words', [...plain, ...shared, '65536'])
  compile(root, 'numbers', 'numbers', ['--initialMemory', String(numbersPages)])
  const simd = ['--enable', 'simd']
  compile(root, 'column-filters', 'column-filters', [...simd, '--initialMemory', String(columnPages)])
}

function compile(root: string, source: string, name: string, options: readonly string[]): void {
  execFileSync(
    process.execPath,
    [
      join(root, 'node_modules/assemblyscript/bin/asc.js'),
      join(root, `src/kernels/assembly/${source}.ts`),
      '--outFile',
      join(root, `src/kernels/generated/${name}.wasm`),
      '--runtime',
      'stub',
      '--noAssert',
      '-O3',
      ...options,
    ],
    { cwd: root, stdio: 'inherit' },
  )
}
