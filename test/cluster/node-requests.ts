import type { NodeProcess } from './cluster-processes.ts'

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
