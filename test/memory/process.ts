import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLogger } from '../../src/base/log.ts'
import { readConfig } from '../../src/config.ts'
import type { Collection } from '../../src/engine/collection.ts'
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
  /** On each search thread. */
  readonly searches: number
  /** Vectors keep the lengths that they come with, instead of 1. */
  readonly varied: boolean
}

/** Resident bytes: all, those of no file, and those of the data directory's files. */
export interface Resident {
  readonly rss: number
  readonly anonymous: number
  /** Of the anonymous ones: the segments. */
  readonly columns: number
  /** Of the anonymous ones: in pages of 2 MiB, used or not. */
  readonly huge: number
  /** Of the anonymous ones: what JavaScript's heap has taken, used or not. */
  readonly heap: number
  readonly dataFiles: number
}

export interface MemoryReport {
  readonly loaded: Resident
  readonly searched: Resident
  /** What the service counts for points, as for MAX_MEMORY_BYTES. */
  readonly countedBytes: number
  readonly graphs: number
  /** What is needed of a point at the least, in bytes; the links of all graphs. */
  readonly rowBytes: number
  readonly codeBytes: number
  readonly linkBytes: number
}

const seed = 20260601
const pointsPerInsert = 2000
/** A mapping's rights, its path if it has one, and the lines of its fields. */
const mapping = /^[\da-f]+-[\da-f]+ (\S+) \S+ \S+ \d+ *(.*)\n((?:[A-Z]\w+:.*\n)+)/gm
/** What is larger, of no file and not code, is a segment: its columns have room for every slot. */
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
  // All of the same clusters: points that come in unrelated ones, no graph leads from one to the other.
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

/** One query after the other, so many at a time that every thread has one. */
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
    // Pages of a file that were written to are no longer the file's.
    else sum.anonymous += bytesOf('Anonymous')
  }
  return sum
}

function needed(): Pick<MemoryReport, 'graphs' | 'rowBytes' | 'codeBytes' | 'linkBytes'> {
  const { hnswM: m, hnswEfConstruction: efConstruction, maxLimit, hnswCodeBits: codeBits } = config
  const threads = 1 + config.searchThreads + config.indexThreads
  const options = { dimension, threads, m, efConstruction, maxLimit, codeBits, rowsOnDisk: vectorsOnDisk }
  const layout = segmentLayout(options)
  // The service counts a second graph where there is one.
  const withOne = collection.stats.points * (slotBytes(layout) + threads)
  const graphs = collection.stats.indexBytes > withOne ? 2 : 1
  const linkBytes = graphs * (8 * m + (4 * m) / (m - 1))
  return { graphs, rowBytes: 4 * dimension, codeBytes: layout.codeBytes, linkBytes }
}
