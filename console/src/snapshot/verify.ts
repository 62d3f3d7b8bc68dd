import type { SnapshotSummary } from './check.ts'
import type { FromWorker } from './worker.ts'

/**
 * Verifies a snapshot in a worker.
 *
 * @throws Error that says where the snapshot is damaged
 */
export function verifySnapshot(
  file: Blob,
  options: { readonly signal: AbortSignal; readonly onProgress: (bytes: number) => void },
): Promise<SnapshotSummary> {
  const { signal, onProgress } = options
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
  return new Promise<SnapshotSummary>((resolve, reject) => {
    worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
      if (data.kind === 'progress') onProgress(data.bytes)
      else if (data.kind === 'whole') resolve(data.summary)
      else reject(new Error(data.message))
    })
    worker.addEventListener('error', () =>
      reject(new Error('The code that verifies snapshots could not be loaded. Reload the page.')),
    )
    signal.addEventListener('abort', () => reject(signal.reason))
    worker.postMessage(file)
  }).finally(() => worker.terminate())
}
