import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** The builds of the kernels: with relaxed SIMD where the engine has it, with plain SIMD128 everywhere. */
const variants = {
  relaxed: ['simd', 'relaxed-simd', 'threads', 'bulk-memory'],
  simd: ['simd', 'threads', 'bulk-memory'],
}

/** Text, numbers and what is read beyond their ends: see numbers.ts. */
const numbersPages = 22

/**
 * Compiles the AssemblyScript kernels to src/kernels/generated/: kernels-<variant>.wasm over memory that threads share,
 * numbers.wasm with its own.
 */
export function buildKernels(root: string): void {
  mkdirSync(join(root, 'src/kernels/generated'), { recursive: true })
  const shared = ['--importMemory', '--sharedMemory', '--initialMemory', '1', '--maximumMemory', '65536']
  for (const [variant, features] of Object.entries(variants)) {
    const enabled = features.flatMap((feature) => ['--enable', feature])
    compile(root, 'index', `kernels-${variant}`, [...enabled, ...shared])
  }
  compile(root, 'numbers', 'numbers', ['--initialMemory', String(numbersPages)])
}

function compile(root: string, source: string, name: string, options: readonly string[]): void {
  execFileSync(
    process.execPath,
    [
      join(root, 'node_modules/assemblyscript/bin/asc.js'),
      join(root, `src/kernels/assembly/${source}.ts`),
      ...['--outFile', join(root, `src/kernels/generated/${name}.wasm`)],
      ...['--runtime', 'stub', '--noAssert', '-O3'],
      ...options,
    ],
    { cwd: root, stdio: 'inherit' },
  )
}
