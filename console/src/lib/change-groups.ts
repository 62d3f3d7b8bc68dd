import type { BulkResult } from '../api/points.ts'

/**
 * Changes one bounded group of points after the other, until no more points match or `isStopped`. It waits for the
 * request in flight even then: the server may apply it anyway, and only its response tells how many points it changed.
 *
 * @param onChanged called after each group with the number of points changed so far
 * @returns the number of changed points, and whether more points match
 */
export async function changeGroups(
  changeGroup: () => Promise<BulkResult>,
  onChanged: (changed: number) => void,
  isStopped: () => boolean,
): Promise<BulkResult> {
  let changed = 0
  for (;;) {
    const group = await changeGroup()
    changed += group.changed
    onChanged(changed)
    const more = group.more && group.changed > 0
    if (!more || isStopped()) return { changed, more }
  }
}
