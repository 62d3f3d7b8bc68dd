import type { SharedDocuments } from './commit-log.ts'

/** How the first node of a log began it. */
interface Founding {
  readonly node: string
  /** Whether it brought points: then the log alone does not make a replica. */
  readonly hasPoints: boolean
}

/**
 * Lets a node begin with a log of which it has applied nothing: as the first one, with or without points of its own, or
 * empty where the first one was empty, too.
 *
 * @throws Error that says what the node needs
 */
export async function checkFounding(documents: SharedDocuments, logId: string, own: Founding): Promise<void> {
  const name = `founding-${logId}`
  const value = new TextEncoder().encode(JSON.stringify(own))
  if ((await documents.put(name, value, 0)) !== undefined) return
  const document = await documents.get(name)
  const first = JSON.parse(new TextDecoder().decode(document!.value)) as Founding
  // Its process can have ended before it stored anything.
  if (first.node === own.node && first.hasPoints === own.hasPoints) return
  if (own.hasPoints) {
    throw new Error(
      'the data directory has points that are not from this cluster: start the node with an empty one',
    )
  }
  if (first.hasPoints) {
    throw new Error(
      `the cluster was made from points that ${first.node} had: stop that node, and start this one with a copy of its data directory`,
    )
  }
}
