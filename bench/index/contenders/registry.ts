import type { ContenderVariant } from './contender.ts'
import { levers } from './vicinal-levers.ts'

/** The contender of `--native`, and the environment variable with its folder, which processes inherit. */
export const nativeName = 'hnswlib-native'
export const nativeVariable = 'VICINAL_BENCH_NATIVE'

/** The contenders by name, in the order of the table. Loaded only in the process that runs them. */
export const contenders: Readonly<Record<string, () => Promise<ContenderVariant>>> = {
  vicinal: async () => (await import('./vicinal.ts')).vicinal,
  'vicinal-exact': async () => (await import('./vicinal.ts')).vicinalExact,
  ...Object.fromEntries(
    levers.map((lever) => [lever.name, async () => (await import('./vicinal.ts')).vicinalWith(lever)]),
  ),
  'vicinal-collection': async () => (await import('./vicinal-collection.ts')).vicinalCollection,
  'vicinal-served': async () => (await import('./vicinal-collection.ts')).vicinalServed,
  hnswlib: async () => (await import('./hnswlib.ts')).hnswlibNode,
  [nativeName]: async () => (await import('./hnswlib.ts')).hnswlibNative(),
  usearch: async () => (await import('./usearch.ts')).usearchFloat,
  'usearch-i8': async () => (await import('./usearch.ts')).usearchByte,
  zvec: async () => (await import('./zvec.ts')).zvecFloat,
  'zvec-i8': async () => (await import('./zvec.ts')).zvecByte,
}

export function isVicinal(name: string): boolean {
  return name.startsWith('vicinal')
}

/**
 * The contenders of a run without `--contenders`. The exact scan is too slow on large sets, and levers have a curve;
 * `--native` adds its own.
 */
export const usualContenders: readonly string[] = Object.keys(contenders).filter(
  (name) => !name.startsWith('vicinal-') && name !== nativeName,
)
