import type { ApiContext, Call } from './call.ts'
import { checkId } from './checks.ts'

export interface PointIdInput {
  readonly id?: string | undefined
}

/**
 * Deletes a point; resolves once the deletion is durable and no search can return the point.
 * Resolves with false when there is no such point: HTTP reports that as success, gRPC as NOT_FOUND.
 */
export async function deletePoint(context: ApiContext, input: PointIdInput, call: Call): Promise<boolean> {
  return context.database.remove(checkId(input.id, 'id'), call.signal)
}
