import type { SegmentHandle, SegmentLayout } from './segment.ts'

/**
 * Pages of 2 MiB for what walks read: links, codes and rows. A walk reads a few hundred places of a column, and with
 * pages of 4 KiB the processor finds hardly any of their addresses in its cache of addresses.
 *
 * Linux is asked for them with `madvise`, which Node can call from version 26 on. Before it, on other systems, and where
 * Linux is set to never use them, nothing happens. Small segments keep small pages, because every column wastes a part
 * of its last page, and there may be thousands of segments.
 */

/** Whether this process can ask for huge pages. */
export function canUseHugePages(): boolean {
  return foreignFunctions() !== undefined
}

/** Whether a segment whose memory has this length should have huge pages. */
export function isLarge(memoryBytes: number, { growing }: SegmentLayout): boolean {
  return memoryBytes - growing.at >= largeBytes
}

const largeBytes = 32 * 1024 * 1024

/**
 * Lets a segment's columns have huge pages: from now on where nothing was written yet; elsewhere see `joinPages`.
 * Idempotent.
 */
export function adviseHugePages(segment: SegmentHandle): void {
  for (const { first, end } of hugeRangesOf(segment, segment.layout.capacity)) {
    foreignFunctions()?.madvise(first, end - first, advices.hugePage)
  }
}

/**
 * Copies the pages of the first `slots` slots to huge ones. Searches may run meanwhile. The pages at a start are joined
 * only afterwards: if free memory is in small pieces, it would take twice the processor time until the service is ready.
 *
 * @param from the number of huge pages that are joined
 * @param isOver called after each page; once it returns true, the others are left
 * @returns the number of huge pages that are joined; undefined if that is all
 */
export function joinPages(
  segment: SegmentHandle,
  slots: number,
  from: number,
  isOver: () => boolean,
): number | undefined {
  const pages = hugeRangesOf(segment, slots).flatMap(({ first, end }) =>
    Array.from(
      { length: Number((end - first) / hugePageBytes) },
      (_, page) => first + BigInt(page) * hugePageBytes,
    ),
  )
  for (let page = from; page < pages.length; page += 1) {
    // Fails if the system has no free page of this size. Such a page stays as it is.
    foreignFunctions()?.madvise(pages[page]!, hugePageBytes, advices.collapse)
    if (isOver()) return page + 1
  }
  return undefined
}

/** The addresses of the whole huge pages in the columns of the first slots. */
function hugeRangesOf(
  { memory, layout }: SegmentHandle,
  slots: number,
): { readonly first: bigint; readonly end: bigint }[] {
  const start = foreignFunctions()?.getRawPointer(memory.buffer)
  if (start === undefined) return []
  const { m, graphs, codes, codeBytes, rows, rowBytes } = layout
  const columns = [
    { at: graphs[0]!.links, slotBytes: 8 * m },
    { at: codes, slotBytes: codeBytes },
    { at: rows, slotBytes: rows === 0 ? 0 : rowBytes },
  ]
  return columns
    .map(({ at, slotBytes }) => ({
      first: ((start + BigInt(at) + hugePageBytes - 1n) / hugePageBytes) * hugePageBytes,
      end: ((start + BigInt(at + slots * slotBytes)) / hugePageBytes) * hugePageBytes,
    }))
    .filter(({ first, end }) => end > first)
}

const hugePageBytes = 2n * 1024n * 1024n

/** MADV_HUGEPAGE and MADV_COLLAPSE of Linux. */
const advices = { hugePage: 14, collapse: 25 }

/** The part of Node's module `node:ffi` that is used here. Node 24 does not have it, nor have its types. */
interface ForeignModule {
  getRawPointer(buffer: ArrayBufferLike): bigint
  dlopen(
    library: null,
    functions: { readonly madvise: { readonly return: string; readonly arguments: readonly string[] } },
  ): { readonly functions: { readonly madvise: Madvise } }
}

/** Returns 0, or -1 if the system refuses. */
type Madvise = (address: bigint, bytes: bigint, advice: number) => number

interface ForeignFunctions extends Pick<ForeignModule, 'getRawPointer'> {
  readonly madvise: Madvise
}

function foreignFunctions(): ForeignFunctions | undefined {
  opened ??= { functions: open() }
  return opened.functions
}

let opened: { readonly functions: ForeignFunctions | undefined } | undefined

function open(): ForeignFunctions | undefined {
  if (process.platform !== 'linux') return undefined
  const { emitWarning } = process
  try {
    // The module is experimental, and standard error is for faults of the service.
    process.emitWarning = () => {}
    const ffi = process.getBuiltinModule('node:ffi') as unknown as ForeignModule | undefined
    if (ffi === undefined) return undefined
    const signature = { return: 'int32', arguments: ['uint64', 'uint64', 'int32'] }
    const { functions } = ffi.dlopen(null, { madvise: signature })
    return { getRawPointer: ffi.getRawPointer, madvise: functions.madvise }
  } catch {
    // Not permitted, or not as in Node 26: then pages stay small, as without the module.
    return undefined
  } finally {
    process.emitWarning = emitWarning
  }
}
