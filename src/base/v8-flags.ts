import { setFlagsFromString } from 'node:v8'

/** Flags of V8 that Node does not document, by what they are for. */
export interface V8Flags {
  /** Compile WebAssembly with the optimizing compiler only, and at once. */
  readonly optimizeWasm: readonly string[]
  /** Join pairs of 128-bit operations of WebAssembly into 256-bit ones. */
  readonly widenWasm: readonly string[]
  /** Allocate all new objects in the young generation. */
  readonly allocateYoung: readonly string[]
}

const noFlags: V8Flags = { optimizeWasm: [], widenWasm: [], allocateYoung: [] }

const flags24: V8Flags = {
  optimizeWasm: ['--no-liftoff', '--no-wasm-lazy-compilation'],
  widenWasm: ['--experimental-wasm-revectorize'],
  allocateYoung: ['--no-allocation-site-pretenuring'],
}

/**
 * The flags for each major version of Node on which CI runs tests. What a flag does changes between versions of V8: in
 * Node 26, `--no-liftoff` aborts the process unless inlining is off, too, because inlining needs what only Liftoff
 * records. So any other version runs without flags: slower, but as its own tests covered it.
 */
const flagsOfMajor: ReadonlyMap<number, V8Flags> = new Map([
  [24, flags24],
  [26, { ...flags24, optimizeWasm: [...flags24.optimizeWasm, '--no-wasm-inlining'] }],
])

/** The flags for a version of Node, by default that of this process. */
export function v8Flags(node: string = process.versions.node): V8Flags {
  return flagsOfMajor.get(Number.parseInt(node, 10)) ?? noFlags
}

export function setV8Flags(flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}

/** Calls `action` with these flags, whose opposites must be the defaults, which are restored. */
export function withV8Flags<T>(flags: readonly string[], action: () => T): T {
  setV8Flags(flags)
  try {
    return action()
  } finally {
    setV8Flags(
      flags.map((flag) => (flag.startsWith('--no-') ? `--${flag.slice(5)}` : `--no-${flag.slice(2)}`)),
    )
  }
}
