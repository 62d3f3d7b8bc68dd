import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { replaceFileAsync } from '../base/files.ts'
import type { Part } from './part.ts'
import { loadPart, type PartOrigin, savePart } from './part-file.ts'
import type { SavedPart } from './word-index.ts'

/**
 * The parts of an index of words in a directory:
 *
 * ```
 * words.json   crc, newline, JSON: the file and the removals of each part
 * 17.part      see part-file.ts
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
  /** The number of the next file. */
  readonly next: number
  /** The removed documents of each part: a bit by document, in base64. */
  readonly parts: readonly { readonly file: string; readonly removed: string }[]
}

export class WordFiles {
  readonly #directory: string
  readonly #origin: PartOrigin
  /** The files of parts that are on disk. */
  readonly #files = new WeakMap<Part, string>()
  #next = 0

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
    for (;;) {
      const part = index.parts.find((each) => !this.#files.has(each))
      if (part === undefined) break
      const file = `${this.#next++}.part`
      await savePart(join(this.#directory, file), part.content, this.#origin)
      this.#files.set(part, file)
    }
    const parts = index.parts.map((part) => ({ file: this.#files.get(part)!, removed: encodeRemoved(part) }))
    const json = JSON.stringify({ version: manifestVersion, next: this.#next, parts } satisfies Manifest)
    await replaceFileAsync(join(this.#directory, manifestName), `${crc32(json)}\n${json}`)
    const kept = new Set(parts.map(({ file }) => file))
    for (const name of readdirSync(this.#directory)) {
      if (/\.(?:part|new)$/.test(name) && !kept.has(name)) await rm(join(this.#directory, name))
    }
  }

  /**
   * Reads what `save` wrote; undefined if nothing was.
   *
   * @throws Error that names the fault. The points must then all be indexed again
   */
  load(): readonly SavedPart[] | undefined {
    const manifest = this.#readManifest()
    if (manifest === undefined) return undefined
    this.#next = manifest.next
    return manifest.parts.map(({ file, removed }) => ({
      content: loadPart(join(this.#directory, file), this.#origin),
      removed: decodeRemoved(removed),
      adopted: (part: Part): void => void this.#files.set(part, file),
    }))
  }

  #readManifest(): Manifest | undefined {
    let text: string
    try {
      text = readFileSync(join(this.#directory, manifestName), 'utf8')
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
