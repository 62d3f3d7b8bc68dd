import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLogger } from '../../src/base/log.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { readConfig } from '../../src/config.ts'
import { segmentLayout, slotBytes } from '../../src/index/segment.ts'
import { clusteredSource } from '../support/clusters.ts'
import { openCollection } from '../support/collection.ts'
import { seededRandom } from '../support/random.ts'

export interface MemoryTask {
  readonly kind: 'fill' | 'measure'
  readonly dataDir: string
  readonly points: number
  readonly dimension: number
  readonly vectorsOnDisk: boolean
  /** Number of searches on each search thread. */
  readonly searches: number
  /** Whether vectors keep their generated lengths instead of length 1. */
  readonly varied: boolean
}

/** Resident bytes: total, anonymous, and of the data directory's files. */
export interface Resident {
  readonly rss: number
  readonly anonymous: number
  /** Part of the anonymous bytes: the segments. */
  readonly columns: number
  /** Part of the anonymous bytes: in pages of 2 MiB, used or not. */
  readonly huge: number
  /** Part of the anonymous bytes: allocated by JavaScript's heap, used or not. */
  readonly heap: number
  readonly dataFiles: number
}

export interface MemoryReport {
  readonly loaded: Resident
  readonly searched: Resident
  /** The bytes of points as the service counts them for MAX_MEMORY_BYTES. */
  readonly countedBytes: number
  readonly graphs: number
  /** Minimum bytes of a point: its row, and its links in all graphs. */
  readonly rowBytes: number
  readonly codeBytes: number
  readonly linkBytes: number
}

const seed = 20260601
const pointsPerInsert = 2000
/** Captures a mapping's permissions, its path if any, and the lines of its fields. */
const mapping = /^[\da-f]+-[\da-f]+ (\S+) \S+ \S+ \d+ *(.*)\n((?:[A-Z]\w+:.*\n)+)/gm
/** A larger mapping without a file and code is a segment: its columns have space for every slot. */
const segmentBytesMin = 256 * 1024 * 1024

const task: MemoryTask = JSON.parse(process.argv[2]!)
const { kind, dataDir, dimension, vectorsOnDisk } = task
const config = { ...readConfig({ ...process.env, DATA_DIR: dataDir }), vectorsOnDisk, graphBytesMin: 0 }
const logger = createLogger({ level: 'warn', pretty: false })
const { collection, close } = await openCollection(dataDir, { ...config, logger })
if (kind === 'fill') await fill(collection)
await settled(collection)
const loaded = resident()
if (kind === 'measure') await search(collection)
const { indexBytes, idTableBytes } = collection.stats
const countedBytes = indexBytes + idTableBytes
const report: MemoryReport = { loaded, searched: resident(), countedBytes, ...needed() }
await close()
process.send!(report)
process.disconnect()

async function fill(collection: Collection): Promise<void> {
  // All points come from the same clusters: no graph would connect points of unrelated ones.
  const next = clusteredSource(seededRandom(seed), dimension)
  const payload = { contentType: 'Text', content: '' } as const
  for (let made = 0; made < task.points; made += pointsPerInsert) {
    const vectors = Array.from({ length: Math.min(pointsPerInsert, task.points - made) }, next)
    if (!task.varied) for (const vector of vectors) normalize(vector)
    await collection.insert(vectors.map((vector) => ({ vector, payload })))
  }
}

function normalize(vector: Float32Array): void {
  const length = Math.hypot(...vector)
  for (let at = 0; at < vector.length; at += 1) vector[at]! /= length
}

async function settled(collection: Collection): Promise<void> {
  while (collection.stats.isSettling) await sleep(50)
}

/** Runs the queries, as many concurrently as there are threads. */
async function search(collection: Collection): Promise<void> {
  const vectors = Array.from({ length: task.searches }, clusteredSource(seededRandom(seed), dimension))
  const { searchThreads, hnswEf: ef } = config
  for (const vector of vectors) {
    const query = { vector, metric: 'Euclidean', limit: 10, ef } as const
    await Promise.all(Array.from({ length: searchThreads }, () => collection.search([query])))
  }
}

function resident(): Resident {
  globalThis.gc!()
  const { heapTotal: heap } = process.memoryUsage()
  const sum = { rss: 0, anonymous: 0, columns: 0, huge: 0, heap, dataFiles: 0 }
  for (const [, rights, path, fields] of readFileSync('/proc/self/smaps', 'utf8').matchAll(mapping)) {
    const bytesOf = (field: string): number =>
      1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(fields!)![1])
    const bytes = bytesOf('Rss')
    sum.rss += bytes
    sum.huge += bytesOf('AnonHugePages')
    if (path === '' && rights === 'rw-p' && bytesOf('Size') >= segmentBytesMin) sum.columns += bytes
    if (!path!.startsWith('/') || path!.startsWith('/dev/zero')) sum.anonymous += bytes
    else if (path!.startsWith(dataDir)) sum.dataFiles += bytes
    // Written pages of a private file mapping no longer belong to the file.
    else sum.anonymous += bytesOf('Anonymous')
  }
  return sum
}

function needed(): Pick<MemoryReport, 'graphs' | 'rowBytes' | 'codeBytes' | 'linkBytes'> {
  const { hnswM: m, hnswEfConstruction: efConstruction, maxLimit, hnswCodeBits: codeBits } = config
  const threads = 1 + config.searchThreads + config.indexThreads
  const options = { dimension, threads, m, efConstruction, maxLimit, codeBits, rowsOnDisk: vectorsOnDisk }
  const layout = segmentLayout(options)
  // The service counts a second graph if there is one.
  const withOne = collection.stats.points * slotBytes(layout, threads)
  const graphs = collection.stats.indexBytes > withOne ? 2 : 1
  const linkBytes = graphs * (8 * m + (4 * m) / (m - 1))
  return { graphs, rowBytes: 4 * dimension, codeBytes: layout.codeBytes, linkBytes }
}
