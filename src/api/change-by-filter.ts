import { invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { matchesEveryPoint } from '../base/filter-key.ts'
import type { Patch } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { checkPatch, type PatchInput } from './change-point.ts'
import { checkWhole, type IntegerInput } from './validation.ts'

export interface ChangeByFilterInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly patch?: PatchInput | undefined
  readonly limit?: IntegerInput | undefined
  readonly dryRun?: boolean | undefined
  /** Whether the caller really means all points: a filter that matches every point, or none, is refused otherwise. */
  readonly everything?: boolean | undefined
}

/** How many points were changed, or would be in a dry run. `more` is true if further points match. */
export interface Changed {
  readonly changed: number
  readonly more: boolean
}

/** Changes attributes or expiry of the matching points in one atomic step; at most 100,000 points per call. */
export async function updatePoints(
  context: ApiContext,
  input: ChangeByFilterInput,
  call: Call,
): Promise<Changed> {
  const { database } = context
  const path = call.fields.patch
  const { content, contentType, vector, text } = input.patch ?? {}
  for (const [field, value] of Object.entries({ content, content_type: contentType, vector, text })) {
    if (value !== undefined) {
      throw invalid(`${path}${field} cannot be changed by filter: only set, unset and expires_at can`)
    }
  }
  const patch = checkPatch(input.patch ?? {}, database, path)
  return await changeByFilter(context, input, patch, call)
}

/** Deletes the matching points in one atomic step; at most 100,000 points per call. */
export async function deletePoints(
  context: ApiContext,
  input: ChangeByFilterInput,
  call: Call,
): Promise<Changed> {
  if (input.patch !== undefined) throw invalid('patch is given, but points that are deleted have no changes')
  return await changeByFilter(context, input, 'delete', call)
}

async function changeByFilter(
  { database }: ApiContext,
  { filter, limit, dryRun = false, everything = false }: ChangeByFilterInput,
  change: Patch | 'delete',
  call: Call,
): Promise<Changed> {
  const checkedLimit =
    limit === undefined ? undefined : checkWhole(limit, 'limit', { min: 1, max: Number.MAX_SAFE_INTEGER })
  if (!everything && (filter === undefined || (await matchesEveryPoint(filter)))) {
    const what = filter === undefined ? 'is missing' : isEmpty(filter) ? 'is empty' : 'matches every point'
    throw invalid(`the filter ${what}: send "everything": true to mean all points`)
  }
  const request = { filter: filter ?? allPoints, change, limit: checkedLimit, dryRun }
  call.decoded?.()
  return await database.changeByFilter(request, call.signal)
}

const allPoints: Filter = { kind: 'all', of: [] }

function isEmpty(filter: Filter): boolean {
  return filter.kind === 'all' && filter.of.every(isEmpty)
}
