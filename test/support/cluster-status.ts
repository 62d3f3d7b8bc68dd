import assert from 'node:assert/strict'
import type { ClusterStatus } from '../../src/base/cluster-status.ts'

/** The cluster as a node sees it. */
export async function statusOf(
  node: { readonly url: string } | { readonly httpUrl: string },
): Promise<ClusterStatus> {
  const url = 'url' in node ? node.url : node.httpUrl
  const response = await fetch(`${url}/cluster`, { signal: AbortSignal.timeout(20_000) })
  assert.equal(response.status, 200)
  return (await response.json()) as ClusterStatus
}
