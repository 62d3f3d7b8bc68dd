import { bytes, integer, mebibyte, milliseconds } from './kinds.ts'
import type { Row } from './row.ts'

export class ClusterBoundSettings {
  readonly clusterLogBytes: Row<number> = bytes(16 * mebibyte, Number.MAX_SAFE_INTEGER, {
    default: 8 * 1024 * mebibyte,
    doc: 'Largest size of the log on each log server. Inserts are refused when 95 % of it is in use, deletes when all of it is. Nodes need the log to catch up after a pause. It is trimmed below what all nodes have on disk.',
  })

  readonly clusterMaxAppends: Row<number> = integer(1, 4_096, {
    default: 64,
    doc: 'Records of at most 1 MiB that a node sends to the log at the same time; further ones wait.',
  })

  readonly clusterAppendTimeoutMs: Row<number> = milliseconds(1_000, 60_000, {
    default: 15_000,
    doc: 'How long a write is tried while log servers do not answer, for example after their leader has died. After that, the caller gets an error: the write may have been stored.',
  })

  readonly clusterMaxPeerCalls: Row<number> = integer(1, 65_536, {
    default: 1_024,
    doc: 'Requests that may be in progress to each other node, and from each other node to this one; further ones are refused.',
  })

  readonly clusterPeerTimeoutMs: Row<number> = milliseconds(100, 600_000, {
    default: 10_000,
    doc: 'How long this node waits for the answer of another node before it asks another owner of the same points, or gives up.',
  })
}
