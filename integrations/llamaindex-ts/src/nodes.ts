import { type BaseNode, MetadataMode } from '@llamaindex/core/schema'
import { metadataDictToNode, nodeToMetadata } from '@llamaindex/core/vector-store'
import {
  type AttributesInput,
  attributesOfMetadata,
  type Hit,
  type PointToInsert,
  uuidOf,
} from 'vicinal-client'

/**
 * Converts nodes to points: the text is the content, and metadata are attributes, converted by `attributesOfMetadata`.
 * LlamaIndex's own `_node_content` has the rest of a node, including its id. Existing ids are replaced. If several nodes
 * have the same id, only the last one is returned, because a request accepts only one point per id.
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

/** Returns the node of a point, with its vector if that was fetched. */
export function nodeOf({ payload, vector }: Hit): BaseNode {
  const node = metadataDictToNode({ ...payload?.attributes })
  node.setContent(payload?.content ?? '')
  node.embedding = vector && Array.from(vector)
  return node
}

function attributesOf(node: BaseNode): AttributesInput {
  const entries = Object.entries(attributesOfMetadata(nodeToMetadata(node, true))).filter(([name, value]) => {
    // For a node without a document, LlamaIndex writes the text "None", which could also be an id.
    if (node.sourceNode === undefined && documentNames.has(name)) return false
    // No filter distinguishes an empty list from others, so empty lists are absent.
    return !(Array.isArray(value) && value.length === 0)
  })
  return Object.fromEntries(entries)
}

/** The fields in which LlamaIndex keeps the id of a node's document; it uses all of them. */
const documentNames: ReadonlySet<string> = new Set(['document_id', 'doc_id', 'ref_doc_id'])
