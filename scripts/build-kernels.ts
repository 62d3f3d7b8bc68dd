import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** The builds of the kernels: with relaxed SIMD where the engine has it, with plain SIMD128 everywhere. */
const variants = {
  relaxed: ['simd', 'relaxed-simd', 'threads', 'bulk-memory'],
  simd: ['simd', 'threads', 'bulk-memory'],
}

/** Compiles the AssemblyScript kernels to src/kernels/generated/kernels-<variant>.wasm. */
export function buildKernels(root: string): void {
  const target = join(root, 'src/kernels/generated')
  mkdirSync(target, { recursive: true })
  for (const [variant, features] of Object.entries(variants)) {
    execFileSync(
      process.execPath,
      [
        join(root, 'node_modules/assemblyscript/bin/asc.js'),
        join(root, 'src/kernels/assembly/index.ts'),
        ...['--outFile', join(target, `kernels-${variant}.wasm`), '--runtime', 'stub', '--noAssert', '-O3'],
        ...features.flatMap((feature) => ['--enable', feature]),
        ...['--importMemory', '--sharedMemory', '--initialMemory', '1', '--maximumMemory', '65536'],
      ],
      { cwd: root, stdio: 'inherit' },
    )
  }
}
