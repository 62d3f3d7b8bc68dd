import { type Signal, signal } from '@preact/signals'
import { ApiError, call, collectionPath, type Method } from '../api/client.ts'

/**
 * Whether the server has attributes, filters and lists. They were introduced together, so one check covers all of them.
 * The console hides what the server does not have.
 */
export const isExtended: Signal<boolean> = signal(false)

/** Whether the server is a node of a cluster. */
export const isCluster: Signal<boolean> = signal(false)

export async function detectCapabilities(): Promise<void> {
  const [extended, cluster] = await Promise.all([
    isThere('POST', `${collectionPath('default')}/points/count`, {}),
    isThere('GET', 'cluster'),
  ])
  isExtended.value = extended
  isCluster.value = cluster
}

/** Whether the server has a path. Other errors are ignored here: every view asks the same server and shows them. */
async function isThere(method: Method, path: string, body?: unknown): Promise<boolean> {
  try {
    await call(method, path, { body })
    return true
  } catch (error) {
    return error instanceof ApiError && ![404, 405].includes(error.status)
  }
}
