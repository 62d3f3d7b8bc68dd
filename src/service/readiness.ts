import { DatabaseError, type WritesBlocked, writesBlockedTexts } from '../base/errors.ts'
import type { ServedData } from '../collections/served-data.ts'

/**
 * Returns what is amiss although the service is ready, for people.
 *
 * @throws DatabaseError `not_ready`
 */
export function readinessOf(
  { loaded }: Pick<ServedData, 'loaded'>,
  cluster: { readonly notReady: () => string | undefined; readonly notes: readonly string[] } | undefined,
  writesBlocked: WritesBlocked | undefined,
): readonly string[] {
  const notReady = cluster?.notReady()
  if (notReady !== undefined) throw new DatabaseError('not_ready', notReady)
  if (loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
  const { rebuilding, totals } = loaded.set
  return [
    ...(cluster?.notes ?? []),
    ...(writesBlocked === undefined ? [] : [writesBlockedTexts[writesBlocked]]),
    ...(rebuilding === 0 ? [] : [`graphs are being rebuilt (${rebuilding}): searches are exact until then`]),
    ...(totals.damaged === 0
      ? []
      : [`${totals.damaged} of ${totals.collections} collections cannot be opened: the log names them`]),
  ]
}
