import { type Samples, single, total } from './prometheus.ts'

/** What an operator has to know, worst first, each with what to do. */
export interface Finding {
  readonly level: 'fault' | 'warning' | 'note'
  readonly title: string
  readonly advice: string
}

/** Below this share of free space, and as in the alerts of docs/metrics.md. */
const lowDiskShare = 0.2
const lowRecall = 0.95
const waitingShare = 0.2

/** @param growth how much a counter has grown in the time that the console has watched */
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
      'Check the disk and the log, then restart. Reads and searches go on.',
    )
  }
  if (total(samples, 'vicinal_writes_blocked', { reason: 'disk_full' }) > 0) {
    add(
      'fault',
      'The disk is full: inserts are refused.',
      'Free space in DATA_DIR. Inserts go on by themselves. Reads, searches and deletes work.',
    )
  }
  const internal = growth('vicinal_requests_total', { outcome: 'internal' })
  if (internal > 0)
    add(
      'fault',
      `${internal} requests failed with an internal error.`,
      'The log of the server has the cause.',
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
      `${refused} requests were refused because queues were full.`,
      'Send fewer at a time, or raise the limits.',
    )
  }
  const points = total(samples, 'vicinal_points')
  const waiting = total(samples, 'vicinal_index_waiting_points')
  if (points > 10_000 && waiting > waitingShare * points) {
    add(
      'warning',
      'Indexing is behind.',
      'Searches scan the waiting points and are slower until it has caught up.',
    )
  }
  for (const { labels, value } of samples.get('vicinal_index_recall') ?? []) {
    if (value > 0 && value < lowRecall) {
      add(
        'warning',
        `Recall under ${labels.metric} is ${value.toFixed(3)}.`,
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
