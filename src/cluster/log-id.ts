import { createHash } from 'node:crypto'
import type { CommitLog } from './commit-log.ts'

/** What stands for a log where 16 bytes have to do, in hex. */
export function shortIdOf({ id }: Pick<CommitLog, 'id'>): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}
