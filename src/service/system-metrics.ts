import { statfsSync } from 'node:fs'
import { type WritesBlocked, writesBlockedTexts } from '../base/errors.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { version } from '../base/version.ts'

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
