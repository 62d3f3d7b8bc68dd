import { statfsSync } from 'node:fs'
import { constants as osConstants } from 'node:os'

/**
 * Whether an error is caused by a full disk. A full disk can cause a short write, which LMDB reports as EIO. In that
 * case, the free space of the file system of `path` decides.
 */
export function isDiskFull(error: unknown, path: string): boolean {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  if (diskFullCodes.includes(code)) return true
  if (/no space left|MDB_MAP_FULL|disk quota/i.test(message)) return true
  if (code !== errno.EIO) return false
  const { bavail, bsize } = statfsSync(path)
  return bavail * bsize < fullBytes
}

const { errno } = osConstants
/** Node reports names of errors, LMDB their numbers. */
const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', errno.ENOSPC, errno.EDQUOT]

/** Less than the largest single write of LMDB. With more free space, a short write has another cause. */
const fullBytes = 1024 * 1024
