import { plural } from './format.ts'
import { type Samples, single, total } from './prometheus.ts'

/** One finding for the operator, with advice. */
export interface Finding {
  readonly level: 'fault' | 'warning' | 'note'
  readonly title: string
  readonly advice: string
}

/** The same thresholds as the alerts in docs/metrics.md. */
const lowDiskShare = 0.2
const lowRecall = 0.95
const waitingShare = 0.2
const fullMemoryShare = 0.9

/**
 * The findings for the operator of a server, worst first.
 *
 * @param growth how much a counter has grown while the console has been watching
 */
export function findingsOf(
  samples: Samples,
  growth: (name: string, match?: Readonly<Record<string, string>>) => number,
): readonly Finding[] {
  const found: Finding[] = []
  const add = (level: Finding['level'], title: string, advice: string): void => {
    found.push({ level, title, advice })
  }
  if (total(samples, 'vicinal_writes_blocked', { reason: 'disk_failed' }) > 0) {
    add(
      'fault',
      'The disk has failed: all changes are refused.',
      'Check the disk and the log, then restart. Reads and searches still work.',
    )
  }
  if (total(samples, 'vicinal_writes_blocked', { reason: 'disk_full' }) > 0) {
    add(
      'fault',
      'The disk is full: inserts are refused.',
      'Free space in DATA_DIR. Inserts then resume automatically. Reads, searches and deletes still work.',
    )
  }
  const damaged = total(samples, 'vicinal_damaged_collections')
  if (damaged > 0) {
    add(
      'fault',
      `${plural(damaged, 'collection')} cannot be opened.`,
      'Files are missing or damaged: the server log names them and what to do.',
    )
  }
  const internal = growth('vicinal_requests_total', { outcome: 'internal' })
  if (internal > 0)
    add(
      'fault',
      `${plural(internal, 'request')} failed with an internal error.`,
      'The server log shows the cause.',
    )
  const free = single(samples, 'vicinal_disk_free_bytes')
  const used = single(samples, 'vicinal_disk_bytes') ?? 0
  if (free !== undefined && free < lowDiskShare * (free + used)) {
    add('warning', 'The disk has little space left.', 'Free space, or move DATA_DIR to a larger disk.')
  }
  const refused = growth('vicinal_requests_total', { outcome: 'overloaded' })
  if (refused > 0) {
    add(
      'warning',
      `${plural(refused, 'request')} ${refused === 1 ? 'was' : 'were'} refused because queues were full.`,
      'Send fewer requests at a time, or raise the limits.',
    )
  }
  const memory = total(samples, 'vicinal_memory_bytes')
  const memoryMax = total(samples, 'vicinal_memory_max_bytes')
  if (memoryMax > 0 && memory > fullMemoryShare * memoryMax) {
    add(
      'warning',
      'The memory for points is nearly full.',
      'At MAX_MEMORY_BYTES, inserts are refused. Raise it, or delete points.',
    )
  }
  for (const [name, { points, waiting }] of waitingByCollection(samples)) {
    if (points > 10_000 && waiting > waitingShare * points) {
      add(
        'warning',
        `Indexing of ${name} is behind.`,
        'Searches scan the waiting points, and are slower until indexing has caught up.',
      )
    }
  }
  const recalls = ['vicinal_index_recall', 'vicinal_collection_recall']
  for (const { labels, value } of recalls.flatMap((name) => samples.get(name) ?? [])) {
    if (value > 0 && value < lowRecall) {
      add(
        'warning',
        `Recall of ${labels.collection ?? 'default'} under ${labels.metric} is ${value.toFixed(3)}.`,
        'Raise ef for these searches, or rebuild with a larger m.',
      )
    }
  }
  if (total(samples, 'vicinal_index_settling') > 0) {
    add(
      'note',
      'The index is settling.',
      'A graph is being built, repaired or measured. Searches may be exact and slower.',
    )
  }
  return found
}

/** The default collection has metrics of its own; the others have labels. */
function waitingByCollection(
  samples: Samples,
): readonly (readonly [string, { readonly points: number; readonly waiting: number }])[] {
  const named = (samples.get('vicinal_collection_points') ?? []).map(({ labels, value }) => {
    const { collection = '' } = labels
    const waiting = total(samples, 'vicinal_collection_waiting_points', { collection })
    return [collection, { points: value, waiting }] as const
  })
  const own = {
    points: total(samples, 'vicinal_points'),
    waiting: total(samples, 'vicinal_index_waiting_points'),
  }
  return [['default', own], ...named]
}
