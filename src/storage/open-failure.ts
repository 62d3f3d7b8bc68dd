/**
 * Whether an error only says that a file could not be opened or created now, because too many files are open or memory
 * is short. A failed open loses nothing, unlike a failed write or sync: what was written before is as it was, so the
 * disk can still be trusted.
 */
export function isOpenFailure(error: unknown): boolean {
  const { code = '', syscall = '' } = error as { code?: unknown; syscall?: unknown }
  return openCalls.includes(syscall) && passingCodes.includes(code)
}

const openCalls: readonly unknown[] = ['open', 'mkdir']
const passingCodes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM']
