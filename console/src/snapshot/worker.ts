import { checkSnapshot, type SnapshotSummary } from './check.ts'

/** Verifies one file in a worker. */

export type FromWorker =
  | { readonly kind: 'progress'; readonly bytes: number }
  | { readonly kind: 'whole'; readonly summary: SnapshotSummary }
  | { readonly kind: 'damaged'; readonly message: string }

addEventListener('message', async ({ data }: MessageEvent<Blob>) => {
  const tell = (message: FromWorker): void => postMessage(message)
  try {
    const summary = await checkSnapshot(data, (bytes) => tell({ kind: 'progress', bytes }))
    tell({ kind: 'whole', summary })
  } catch (error) {
    tell({ kind: 'damaged', message: (error as Error).message })
  }
})
