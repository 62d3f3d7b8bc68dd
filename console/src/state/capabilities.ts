import { type Signal, signal } from '@preact/signals'
import { ApiError, call, collectionPath } from '../api/client.ts'

/**
 * Whether the server has attributes, filters and lists. They came together, so one of them answers for all; what a
 * server does not have is not shown.
 */
export const isExtended: Signal<boolean> = signal(false)

export async function detectCapabilities(): Promise<void> {
  try {
    await call('POST', `${collectionPath('default')}/points/count`, { body: {} })
    isExtended.value = true
  } catch (error) {
    // Of another error every view tells for itself: it asks the same server.
    isExtended.value = error instanceof ApiError && ![404, 405].includes(error.status)
  }
}
