import { statfsSync } from 'node:fs'
import type { ServiceMetrics } from '../base/metrics.ts'
import { version } from '../base/version.ts'
import { type WritesBlocked, writesBlockedTexts } from '../base/writes-blocked.ts'

export interface MeasuredSystem {
  readonly dataDir: string
  /** Which kernels run. */
  readonly simd: string
  readonly writesBlocked: () => WritesBlocked | undefined
}

/** Gauges of what runs, of its disk, and of whether it takes changes. */
export function registerSystem(
  metrics: ServiceMetrics,
  { dataDir, simd, writesBlocked }: MeasuredSystem,
): void {
  const { platform, arch } = process
  const labels = { version: version(), node: process.versions.node, platform, arch, simd }
  metrics.info('vicinal_build_info', 'Always 1: what is running, by its labels.', labels)
  metrics.gauge('vicinal_disk_free_bytes', 'Bytes that the disk of the data directory has left.', () => {
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
