import { type BaseNode, MetadataMode } from '@llamaindex/core/schema'
import { metadataDictToNode, nodeToMetadata } from '@llamaindex/core/vector-store'
import { type AttributesInput, type Hit, type PointToInsert, uuidOf } from 'vicinal-client'

/**
 * Nodes as points: the text is the content, metadata are attributes, and what else a node has is in LlamaIndex's own
 * `_node_content`, its id included. Existing ids are replaced. Of nodes with the same id only the last is returned,
 * because a request takes one point under an id.
 */
export function pointsOf(nodes: readonly BaseNode[]): PointToInsert[] {
  const points = new Map<string, PointToInsert>()
  for (const node of nodes) {
    const id = uuidOf(node.id_)
    const content = node.getContent(MetadataMode.NONE)
    const payload = { contentType: 'Text', content, attributes: attributesOf(node) } as const
    points.set(id, { id, vector: node.getEmbedding(), payload, onConflict: 'replace' })
  }
  return [...points.values()]
}

/** The node of a point, with its vector if that was fetched. */
export function nodeOf({ payload, vector }: Hit): BaseNode {
  const node = metadataDictToNode({ ...payload?.attributes })
  node.setContent(payload?.content ?? '')
  node.embedding = vector && Array.from(vector)
  return node
}

function attributesOf(node: BaseNode): AttributesInput {
  const entries = Object.entries(nodeToMetadata(node, true)).filter(([name, value]) => {
    // Without a document LlamaIndex writes the text "None", which could be the id of one.
    if (node.sourceNode === undefined && documentNames.has(name)) return false
    // No filter tells an empty list from others, so that what is empty is absent.
    return !(Array.isArray(value) && value.length === 0)
  })
  return Object.fromEntries(entries)
}

/** Where LlamaIndex keeps the id of a node's document; it uses each of them. */
const documentNames: ReadonlySet<string> = new Set(['document_id', 'doc_id', 'ref_doc_id'])
