import { createHook } from 'node:async_hooks'
import { lookup } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Flags of V8 that Node does not document, by what they are for. */
export interface V8Flags {
  /** Compile WebAssembly with the optimizing compiler only, at once, and without checks of addresses. */
  readonly optimizeWasm: readonly string[]
  /** Join pairs of 128-bit operations of WebAssembly into 256-bit ones. */
  readonly widenWasm: readonly string[]
  /** Allocate all new objects in the young generation. */
  readonly allocateYoung: readonly string[]
}

const noFlags: V8Flags = { optimizeWasm: [], widenWasm: [], allocateYoung: [] }

const flags24: V8Flags = {
  optimizeWasm: ['--no-liftoff', '--no-wasm-lazy-compilation', '--no-wasm-bounds-checks'],
  widenWasm: ['--experimental-wasm-revectorize'],
  allocateYoung: ['--no-allocation-site-pretenuring'],
}

const inliningOff26 = ['--no-wasm-inlining-call-indirect', '--no-wasm-inlining']

/**
 * The flags for each major version of Node on which CI runs tests, so that any other version runs without flags: slower,
 * but as its own tests covered it. What a flag does changes between versions of V8: in Node 26, `--no-liftoff` aborts the
 * process unless inlining is off, too, because inlining needs what only Liftoff records. That of indirect calls must be
 * off before: V8 aborts the process when another thread optimizes an indirect call, of any WebAssembly, while only
 * inlining is off.
 */
const flagsOfMajor: ReadonlyMap<number, V8Flags> = new Map([
  [24, flags24],
  [26, { ...flags24, optimizeWasm: [...inliningOff26, ...flags24.optimizeWasm] }],
])

/** The flags for a version of Node, by default that of this process. */
export function v8Flags(node: string = process.versions.node): V8Flags {
  return flagsOfMajor.get(Number.parseInt(node, 10)) ?? noFlags
}

export function setV8Flags(flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}

/** Calls `action` with these flags, whose opposites must be the defaults, which are restored last flag first. */
export function withV8Flags<T>(flags: readonly string[], action: () => T): T {
  setV8Flags(flags)
  try {
    return action()
  } finally {
    setV8Flags(
      flags
        .toReversed()
        .map((flag) => (flag.startsWith('--no-') ? `--${flag.slice(5)}` : `--no-${flag.slice(2)}`)),
    )
  }
}

/**
 * Keeps `process.nextTick` fast for as long as this thread runs; Node's streams call it about eight times for each
 * HTTP request. Idempotent.
 *
 * V8 keeps the hidden class of the objects that wait for a tick only while one of them exists. If an idle service
 * collects its garbage when none exists, the next object has a new hidden class. The compiled code of `nextTick` then
 * handles objects of any class, for the rest of the process, and takes two to six times as long (Node 24.21). An object
 * that is never released keeps the hidden class. The only access to such an object is a hook.
 */
export function keepTicksFast(): void {
  if (kept.length > 0) return
  const hook = createHook({
    init(_id, type, _trigger, resource) {
      if (type === 'TickObject') kept.push(resource)
    },
    // A hook of promises would make all of them slower, even after it is disabled.
    trackPromises: false,
  })
  hook.enable()
  process.nextTick(() => {})
  hook.disable()
}

const kept: object[] = []

/**
 * Collects this thread's garbage now. Gigabytes of shared memory are freed only when every thread has collected its
 * references to them, and a sleeping thread never does so. Takes a few milliseconds in a thread with a small heap. No
 * frame on the stack may still reference what is to be freed.
 */
export function collectGarbage(): void {
  collect ??= exposed()
  collect()
}

let collect: (() => void) | undefined

/** V8 provides the function only in contexts created after the flag is set; there is no other way to request it. */
function exposed(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}

/** Returns the version of this program. package.json is next to src/ in a checkout and next to dist/ in the package. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/**
 * Whether all addresses of a host are loopback addresses.
 *
 * @param host an address or a name
 * @throws the errors of `lookup`
 */
export async function isLoopback(host: string): Promise<boolean> {
  const found = await lookup(host, { all: true })
  return found.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'))
}
