/** Why writes are rejected, while reads and searches continue. */
export type WritesBlocked = 'disk_full' | 'disk_failed'

/** The reasons in words, for people. */
export const writesBlockedTexts: Readonly<Record<WritesBlocked, string>> = {
  disk_full:
    'the disk is full: inserts are refused until there is space; reads, searches and deletes continue',
  disk_failed: 'the disk failed: changes are refused until a restart; reads and searches continue',
}
