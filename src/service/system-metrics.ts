import { statfsSync } from 'node:fs'
import type { RefusedKeys } from '../base/api-key.ts'
import type { BodyBudgets } from '../base/budgets.ts'
import { DatabaseError, type WritesBlocked, writesBlockedTexts } from '../base/errors.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { Meters } from '../base/quotas.ts'
import { version } from '../base/runtime.ts'
import type { ServedData } from '../collections/served-data.ts'

interface MeasuredSystem {
  readonly dataDir: string
  /** The variant of the kernels that run. */
  readonly simd: string
  readonly writesBlocked: () => WritesBlocked | undefined
}

/** Registers gauges of what runs, of its disk, and of whether it accepts changes. */
export function registerSystem(
  metrics: ServiceMetrics,
  { dataDir, simd, writesBlocked }: MeasuredSystem,
): void {
  const { platform, arch } = process
  const labels = { version: version(), node: process.versions.node, platform, arch, simd }
  metrics.info('vicinal_build_info', 'Always 1; the labels describe what is running.', labels)
  metrics.gauge('vicinal_disk_free_bytes', 'Free bytes on the disk of the data directory.', () => {
    const { bavail, bsize } = statfsSync(dataDir)
    return bavail * bsize
  })
  metrics.gauges(
    'vicinal_writes_blocked',
    'Whether changes are refused, by reason: 1 from the first refusal to the next insert that is stored.',
    'reason',
    () => Object.keys(writesBlockedTexts).map((reason) => [reason, reason === writesBlocked() ? 1 : 0]),
  )
}

/** Registers gauges of what all threads with transports share. */
export function registerTransports(
  metrics: ServiceMetrics,
  {
    budgets,
    refusedKeys,
    threads,
    meters,
  }: {
    readonly budgets: BodyBudgets
    readonly meters: readonly Meters[]
    readonly refusedKeys: RefusedKeys
    readonly threads: () => number
  },
): void {
  metrics.gauge('vicinal_serving_threads', 'Threads that serve requests.', threads)
  registerBudgets(metrics, budgets)
  registerRefusedKeys(metrics, refusedKeys)
  metrics.gaugesOf(
    'vicinal_quota_refusals',
    'Requests refused since the start because of a quota, for each key and collection that has one.',
    ['kind', 'name'],
    () => meters.flatMap(({ refusals }) => refusals),
  )
}

function registerBudgets(metrics: ServiceMetrics, { requests, answers }: BodyBudgets): void {
  metrics.gauge(
    'vicinal_buffered_request_bytes',
    'Requests in memory that are arriving, being decoded or searched for.',
    () => requests.usedBytes,
  )
  metrics.gauge(
    'vicinal_buffered_answer_bytes',
    'Answers in memory that are being made, or that clients have not received yet.',
    () => answers.usedBytes,
  )
  metrics.gauges(
    'vicinal_refused_bodies',
    'Bodies refused since the start, because too many bytes of them were in memory.',
    'body',
    () => [
      ['request', requests.refusals],
      ['answer', answers.refusals],
    ],
  )
}

function registerRefusedKeys(metrics: ServiceMetrics, refusedKeys: RefusedKeys): void {
  metrics.gauges(
    'vicinal_refused_keys',
    'Calls refused since the start, because the API key was missing or invalid.',
    'transport',
    () => Object.entries(refusedKeys.counts),
  )
}

/**
 * Returns what is amiss although the service is ready, for people.
 *
 * @throws DatabaseError `not_ready`
 */
export function readinessOf(
  { loaded }: Pick<ServedData, 'loaded'>,
  cluster: { readonly notReady: () => string | undefined; readonly notes: readonly string[] } | undefined,
  writesBlocked: WritesBlocked | undefined,
): readonly string[] {
  const notReady = cluster?.notReady()
  if (notReady !== undefined) throw new DatabaseError('not_ready', notReady)
  if (loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
  const { rebuilding, totals } = loaded.set
  return [
    ...(cluster?.notes ?? []),
    ...(writesBlocked === undefined ? [] : [writesBlockedTexts[writesBlocked]]),
    ...(rebuilding === 0 ? [] : [`graphs are being rebuilt (${rebuilding}): searches are exact until then`]),
    ...(totals.damaged === 0
      ? []
      : [`${totals.damaged} of ${totals.collections} collections cannot be opened: the log names them`]),
  ]
}
