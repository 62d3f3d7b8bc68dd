import { createHash } from 'node:crypto'
import type { CommitLog } from './commit-log.ts'

/** The id of a log, shortened to 16 bytes, in hex. */
export function shortIdOf({ id }: Pick<CommitLog, 'id'>): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}
