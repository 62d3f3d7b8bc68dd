import assert from 'node:assert/strict'
import { waitFor } from '../support/until.ts'
import type { NodeProcess } from './cluster-processes.ts'
import type { NodeService } from './cluster-services.ts'

/** Sends JSON to a node. */
export async function post(
  { url }: Pick<NodeProcess, 'url'>,
  path: string,
  body: unknown,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...more }
  return await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

/** Inserts a point, again and again while the log of a busy machine is too slow for the patience of the node. */
export async function insertOnce(node: NodeService, point: unknown, key: string): Promise<Response> {
  let refusal = ''
  return await waitFor(
    async () => {
      const answer = await post(node, '/points', point, { 'idempotency-key': key })
      if (answer.status === 201) return answer
      refusal = await answer.text()
      assert.equal(answer.status, 503, refusal)
      return undefined
    },
    () => `an insert at ${node.name}; the last answer is ${refusal}`,
  )
}
