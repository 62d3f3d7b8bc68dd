import type { Bound, Held } from './flatness.ts'

const mebibyte = 1024 * 1024

/**
 * For the long form. A request that leaves one object behind leaves some 50 bytes of heap; a connection that is
 * kept, or a buffer, leaves a file, a resource or kilobytes. RSS is the coarsest: allocators give back late.
 */
export const longBounds: Readonly<Record<Held, Bound>> = {
  heapBytes: { noise: 2 * mebibyte, perRequest: 4 },
  externalBytes: { noise: 4 * mebibyte, perRequest: 4 },
  rssBytes: { noise: 16 * mebibyte, perRequest: 16 },
  files: { noise: 3, perRequest: 0 },
  resources: { noise: 3, perRequest: 0 },
}

/** For a few thousand requests, in which code is still being compiled: it finds what is lost with each request or connection. */
export const shortBounds: Readonly<Record<Held, Bound>> = {
  heapBytes: { noise: 2 * mebibyte, perRequest: 200 },
  externalBytes: { noise: 4 * mebibyte, perRequest: 500 },
  rssBytes: { noise: 64 * mebibyte, perRequest: 0 },
  files: { noise: 5, perRequest: 0 },
  resources: { noise: 5, perRequest: 0 },
}
