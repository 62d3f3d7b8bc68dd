import { readdirSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib'
import { encodeHead, headBytes, headerOf, headOf, replaceFileAsync } from '../base/files.ts'
import { inTurns } from '../base/turns.ts'
import { analyzerVersion } from './analyzer.ts'
import { ByteReader, ByteWriter } from './byte-writer.ts'
import type { Part } from './part.ts'
import type { PartColumns, PartContent } from './part-content.ts'
import type { SavedPart } from './word-index.ts'

/**
 * The parts of an index of words in a directory:
 *
 * ```
 * words.json   crc, newline, JSON: the file and the removals of each part
 * 17.part      see below
 * ```
 *
 * A part is written once. `words.json` is renamed over the old one when all its parts are on disk, and only then are
 * the files of other parts deleted, so a crash leaves the state before or after. All of it can be rebuilt from the
 * points.
 */
const manifestName = 'words.json'
const manifestVersion = 1

interface Manifest {
  readonly version: number
  /** The removed documents of each part: a bit by document, in base64. */
  readonly parts: readonly { readonly file: string; readonly removed: string }[]
}

export class WordFiles {
  readonly #directory: string
  readonly #origin: PartOrigin
  /** The files of parts that are on disk. */
  readonly #files = new WeakMap<Part, string>()
  /** The number of the next file; undefined before the first. */
  #next: number | undefined

  constructor(directory: string, origin: PartOrigin) {
    this.#directory = directory
    this.#origin = origin
  }

  /**
   * Writes the parts. Those that are on disk are not written again. Parts may change meanwhile: what was removed is seen
   * when they are read.
   */
  async save(index: { readonly parts: readonly Part[] }): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    // Those of other words are named by the manifest until this one replaces it.
    this.#next ??= Math.max(
      0,
      ...readdirSync(this.#directory).map((name) => 1 + Number.parseInt(name, 10) || 0),
    )
    for (;;) {
      const part = index.parts.find((each) => !this.#files.has(each))
      if (part === undefined) break
      const file = `${this.#next++}.part`
      await savePart(join(this.#directory, file), part.content, this.#origin)
      this.#files.set(part, file)
    }
    const parts = index.parts.map((part) => ({ file: this.#files.get(part)!, removed: encodeRemoved(part) }))
    const json = JSON.stringify({ version: manifestVersion, parts } satisfies Manifest)
    await replaceFileAsync(join(this.#directory, manifestName), `${crc32(json)}\n${json}`)
    const kept = new Set(parts.map(({ file }) => file))
    for (const name of readdirSync(this.#directory)) {
      if (/\.(?:part|new)$/.test(name) && !kept.has(name)) await rm(join(this.#directory, name))
    }
  }

  /**
   * Reads what `save` wrote, in turns; undefined if nothing was.
   *
   * @throws Error that names the fault. The points must then all be indexed again
   */
  async load(): Promise<readonly SavedPart[] | undefined> {
    const manifest = await this.#readManifest()
    if (manifest === undefined) return undefined
    const saved: SavedPart[] = []
    for (const { file, removed } of manifest.parts) {
      saved.push({
        content: await loadPart(join(this.#directory, file), this.#origin),
        removed: decodeRemoved(removed),
        adopted: (part: Part): void => void this.#files.set(part, file),
      })
    }
    return saved
  }

  async #readManifest(): Promise<Manifest | undefined> {
    let text: string
    try {
      text = await readFile(join(this.#directory, manifestName), 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    const end = text.indexOf('\n')
    const json = text.slice(end + 1)
    if (text.slice(0, end) !== String(crc32(json)))
      throw new Error(`the checksum of ${manifestName} is wrong`)
    const manifest = JSON.parse(json) as Manifest
    if (manifest.version !== manifestVersion) {
      throw new Error(
        `${manifestName} has version ${manifest.version}, and this version of Vicinal reads ${manifestVersion}`,
      )
    }
    return manifest
  }
}

function encodeRemoved({ documents, removed }: Part): string {
  if (removed.length === 0) return ''
  const bits = Buffer.alloc(Math.ceil(documents / 8))
  for (const document of removed) bits[document >> 3]! |= 1 << (document & 7)
  return bits.toString('base64')
}

function decodeRemoved(text: string): number[] {
  const bits = Buffer.from(text, 'base64')
  const removed: number[] = []
  for (const [index, byte] of bits.entries()) {
    for (let bit = 0; bit < 8; bit += 1) if ((byte & (1 << bit)) !== 0) removed.push(8 * index + bit)
  }
  return removed
}

/**
 * A part on disk. A part never changes, so its file is written once; which of its documents are still live is seen
 * from the points. A start reads the files, and indexes again what changed after them. They can be rebuilt from the
 * stored points.
 *
 *   head with the magic "VICWORDS" | sections in sequence
 *
 * Each section is compressed, by zstd, with a checksum. The columns by document are one section of integers of variable
 * length: runs of the differences between slots, and between sequence numbers, runs of languages, and the lengths of
 * each path. The other sections are as in memory, with little-endian words. Compression takes a quarter off all of it,
 * and hardly any time.
 */
const magic = 'VICWORDS'
/** A file of another version is not used: its points are indexed again. */
const formatVersion = 3

/** What must be the same for the terms of a file to be those of now. */
interface PartOrigin {
  readonly language: string
  readonly paths: readonly string[]
}

interface Header {
  readonly version: number
  readonly analyzer: string
  readonly origin: PartOrigin
  readonly documents: number
  readonly terms: number
  readonly norms: PartContent['norms']
  readonly weights: readonly number[]
  readonly sections: readonly { readonly name: SectionName; readonly bytes: number }[]
}

const sectionNames = ['documents', 'codes', 'dictionary', 'postings', 'positions'] as const
type SectionName = (typeof sectionNames)[number]

const [compress, decompress] = [promisify(zstdCompress), promisify(zstdDecompress)]
const withChecksum = { params: { [constants.ZSTD_c_checksumFlag]: 1 } }

/** Returns the bytes of a part's file, in turns. The part may be freed before they are there. */
export async function encodePart(content: PartContent, origin: PartOrigin): Promise<Uint8Array> {
  // Copies, which are made before anything is awaited.
  const columns: PartColumns = {
    slots: content.slots.slice(),
    sequences: content.sequences.slice(),
    languages: content.languages.slice(),
    lengths: content.lengths.map((column) => column.slice()),
  }
  const { length: documents } = content.slots
  const { codes } = content
  const plain: Readonly<Record<SectionName, Uint8Array | Promise<Uint8Array>>> = {
    documents: Promise.resolve(inTurns(encodeDocuments(columns))),
    codes: Buffer.from(new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength)),
    dictionary: Buffer.from(content.dictionary),
    postings: Buffer.from(content.postings),
    positions: Buffer.from(content.positions),
  }
  const sections = await Promise.all(
    sectionNames.map(async (name) => ({ name, bytes: await compress(await plain[name], withChecksum) })),
  )
  const header: Header = {
    version: formatVersion,
    analyzer: analyzerVersion,
    origin,
    documents,
    terms: content.terms,
    norms: content.norms,
    weights: content.weights,
    sections: sections.map(({ name, bytes }) => ({ name, bytes: bytes.length })),
  }
  return Buffer.concat([encodeHead(magic, header), ...sections.map(({ bytes }) => bytes)])
}

/** Writes a part to a file, which is complete or absent. */
export async function savePart(path: string, content: PartContent, origin: PartOrigin): Promise<void> {
  await replaceFileAsync(path, await encodePart(content, origin))
}

/** Reads a file of `savePart`, in turns. @throws Error that names what is wrong with the file */
export async function loadPart(path: string, origin: PartOrigin): Promise<PartContent> {
  return await decodePart(await readFile(path), origin)
}

/** Reads the bytes of `encodePart`, in turns. @throws Error that names their fault */
export async function decodePart(bytes: Buffer, origin: PartOrigin): Promise<PartContent> {
  const head = headOf(bytes, magic, 'a file of words')
  const header = headerOf<Header>(head, bytes.subarray(headBytes, headBytes + head.bytes))
  if (header.version !== formatVersion) {
    throw new Error(
      `the words have format ${header.version}, and this version of Vicinal reads ${formatVersion}`,
    )
  }
  if (header.analyzer !== analyzerVersion) {
    throw new Error(`the words were analyzed by version ${header.analyzer}, not by ${analyzerVersion}`)
  }
  if (JSON.stringify(header.origin) !== JSON.stringify(origin)) {
    throw new Error(`the words are of ${JSON.stringify(header.origin)}, not of ${JSON.stringify(origin)}`)
  }
  const sections = new Map<SectionName, Buffer>()
  let at = headBytes + head.bytes
  for (const { name, bytes: size } of header.sections) {
    const section = bytes.subarray(at, at + size)
    if (section.length !== size) throw new Error(`the words end inside of the ${name}`)
    const decompressed = decompress(section).catch((error: Error) => {
      throw new Error(`the ${name} are damaged: ${error.message}`)
    })
    sections.set(name, await decompressed)
    at += size
  }
  const section = (name: SectionName): Buffer => {
    const found = sections.get(name)
    if (found === undefined) throw new Error(`the words have no ${name}`)
    return found
  }
  const { documents, terms, norms, weights } = header
  return {
    ...(await inTurns(decodeDocuments(section('documents'), documents, weights.length))),
    // A copy, because words must be aligned.
    codes: new Uint32Array(new Uint8Array(section('codes')).buffer),
    dictionary: section('dictionary'),
    postings: section('postings'),
    positions: section('positions'),
    terms,
    norms,
    weights,
  }
}

function* encodeDocuments({
  slots,
  sequences,
  languages,
  lengths,
}: PartColumns): Generator<void, Uint8Array> {
  const out = new ByteWriter()
  for (const values of [slots, sequences]) yield* writeRuns(out, values.length, differencesOf(values))
  yield* writeRuns(out, languages.length, (document) => languages[document]!)
  for (const column of lengths) {
    for (let document = 0; document < column.length; document += 1) {
      if (document % integersPerStep === 0) yield
      out.integer(column[document]!)
    }
  }
  return out.written
}

/** The differences between neighbours, doubled; plus one, and positive, if they are negative. */
function differencesOf(values: Uint32Array | Float64Array): (at: number) => number {
  return (at) => {
    const difference = values[at]! - (at === 0 ? 0 : values[at - 1]!)
    return difference < 0 ? -2 * difference - 1 : 2 * difference
  }
}

/** Writes equal values that follow each other as one, with their number. */
function* writeRuns(out: ByteWriter, count: number, valueAt: (at: number) => number): Generator<void> {
  for (let from = 0, to = 0; from < count; from = to) {
    const value = valueAt(from)
    for (to = from + 1; to < count && valueAt(to) === value; to += 1) if (to % integersPerStep === 0) yield
    if (to % integersPerStep === 0) yield
    out.integer(value)
    out.integer(to - from)
  }
}

function* decodeDocuments(bytes: Uint8Array, documents: number, paths: number): Generator<void, PartColumns> {
  const reader = new ByteReader(bytes, 0)
  const slots = yield* sums(reader, new Uint32Array(documents))
  const sequences = yield* sums(reader, new Float64Array(documents))
  const languages = yield* readRuns(reader, new Uint8Array(documents))
  const lengths = Array.from({ length: paths }, () => new Uint32Array(documents))
  for (const column of lengths) {
    for (let document = 0; document < documents; document += 1) {
      column[document] = reader.integer()
      if (document % integersPerStep === 0) yield
    }
  }
  return { slots, sequences, languages, lengths }
}

function* readRuns<Values extends Float64Array | Uint8Array>(
  reader: ByteReader,
  values: Values,
): Generator<void, Values> {
  for (let from = 0, runs = 1; from < values.length; runs += 1) {
    const value = reader.integer()
    const to = from + reader.integer()
    values.fill(value, from, to)
    from = to
    if (runs % integersPerStep === 0) yield
  }
  return values
}

/** Undoes `differencesOf`. */
function* sums<Values extends Float64Array | Uint32Array>(
  reader: ByteReader,
  target: Values,
): Generator<void, Values> {
  const values = yield* readRuns(reader, new Float64Array(target.length))
  let sum = 0
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at]!
    sum += value % 2 === 1 ? -(value + 1) / 2 : value / 2
    target[at] = sum
    if (at % integersPerStep === 0) yield
  }
  return target
}

/** Reading or writing so many takes some microseconds. */
const integersPerStep = 1024
