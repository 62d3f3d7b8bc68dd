import type { Bound, Held } from './flatness.ts'

const mebibyte = 1024 * 1024

/**
 * Bounds for the long form. A leaked object per request is some 50 bytes of heap; a leaked connection or buffer is a
 * file, a resource or kilobytes. RSS is the coarsest measure, because allocators return memory late.
 */
export const longBounds: Readonly<Record<Held, Bound>> = {
  heapBytes: { noise: 2 * mebibyte, perRequest: 4 },
  externalBytes: { noise: 4 * mebibyte, perRequest: 4 },
  rssBytes: { noise: 16 * mebibyte, perRequest: 16 },
  files: { noise: 3, perRequest: 0 },
  resources: { noise: 3, perRequest: 0 },
}

/** For a few thousand requests, while code is still being compiled: finds leaks at each request or connection. */
export const shortBounds: Readonly<Record<Held, Bound>> = {
  heapBytes: { noise: 2 * mebibyte, perRequest: 200 },
  externalBytes: { noise: 4 * mebibyte, perRequest: 500 },
  rssBytes: { noise: 64 * mebibyte, perRequest: 0 },
  files: { noise: 5, perRequest: 0 },
  resources: { noise: 5, perRequest: 0 },
}
