import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { encodePart } from '../../src/words/word-files.ts'
import { WordIndex } from '../../src/words/word-index.ts'

/** An engine with the texts of one collection. */
export interface Contender {
  /** Indexes the texts. Returns the seconds of processor time. */
  index(texts: readonly string[]): Promise<number>
  /** Runs queries on one thread. Returns the microseconds of processor time of one, and what the last call found. */
  search(queries: readonly string[], k: number): Promise<SearchRun>
  /** Bytes of the index as a share of the texts' bytes; undefined if it cannot be told. */
  size?(): Promise<number>
  close(): void
}

export interface SearchRun {
  readonly microseconds: number
  /** The places of the best texts of each query. */
  readonly found: readonly (readonly number[])[]
}

export const contenderNames: readonly string[] = ['vicinal', 'tantivy', 'fts5', 'minisearch', 'lunr']

export function makeContender(name: string, python: string | undefined): Contender {
  if (name === 'vicinal') return new Vicinal()
  if (name === 'tantivy') return new Tantivy(python!)
  if (name === 'fts5') return new Fts5()
  if (name === 'minisearch') return new MiniSearchContender()
  if (name === 'lunr') return new Lunr()
  throw new Error(`--contenders: ${name} is not one of ${contenderNames.join(', ')}`)
}

/** The libraries of this folder's package.json, without their types: they are installed for this benchmark only. */
const require = createRequire(join(import.meta.dirname, 'package.json'))

/** Runs something and returns the seconds of processor time it took. */
function processorSeconds(run: () => void): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

/** A contender whose calls return at once. */
abstract class SynchronousContender implements Contender {
  index(texts: readonly string[]): Promise<number> {
    return Promise.resolve(processorSeconds(() => this.add(texts)))
  }

  search(queries: readonly string[], k: number): Promise<SearchRun> {
    const found: (readonly number[])[] = []
    const seconds = processorSeconds(() => {
      for (const query of queries) found.push(this.find(query, k))
    })
    return Promise.resolve({ microseconds: (seconds / queries.length) * 1e6, found })
  }

  protected abstract add(texts: readonly string[]): void
  protected abstract find(query: string, k: number): readonly number[]
  close(): void {}
}

/** What the file of a part says about its texts. */
const origin = { language: 'english', paths: ['text'] }

class Vicinal extends SynchronousContender {
  readonly #index = new WordIndex({ language: 'english', weights: [1] })
  #textBytes = 0

  protected add(texts: readonly string[]): void {
    for (const [slot, text] of texts.entries()) {
      this.#textBytes += Buffer.byteLength(text)
      this.#index.put(slot, slot + 1, [[text]])
    }
    this.#index.freeze()
    for (const _ of this.#index.mergeInSteps(true));
  }

  protected find(query: string, k: number): readonly number[] {
    return this.#index.search(query, k).map(({ slot }) => slot)
  }

  async size(): Promise<number> {
    let bytes = 0
    for (const { content } of this.#index.parts) bytes += (await encodePart(content, origin)).length
    return bytes / this.#textBytes
  }
}

class Fts5 extends SynchronousContender {
  readonly #database = new DatabaseSync(':memory:')

  protected add(texts: readonly string[]): void {
    this.#database.exec(
      `CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='porter unicode61'); BEGIN`,
    )
    const insert = this.#database.prepare('INSERT INTO texts(rowid, text) VALUES (?, ?)')
    for (const [place, text] of texts.entries()) insert.run(place + 1, text)
    this.#database.exec(`COMMIT; INSERT INTO texts(texts) VALUES ('optimize')`)
  }

  protected find(query: string, k: number): readonly number[] {
    const words = query.match(/[\p{L}\p{N}]+/gu) ?? []
    const select = this.#database.prepare('SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?')
    return select.all(words.map((word) => `"${word}"`).join(' OR '), k).map((row) => Number(row.rowid) - 1)
  }

  override close(): void {
    this.#database.close()
  }
}

interface MiniSearchIndex {
  addAll(documents: readonly object[]): void
  search(query: string): readonly { readonly id: number }[]
}

class MiniSearchContender extends SynchronousContender {
  readonly #index: MiniSearchIndex

  constructor() {
    super()
    const MiniSearch = require('minisearch') as new (options: object) => MiniSearchIndex
    this.#index = new MiniSearch({ fields: ['text'] })
  }

  protected add(texts: readonly string[]): void {
    this.#index.addAll(texts.map((text, id) => ({ id, text })))
  }

  protected find(query: string, k: number): readonly number[] {
    return this.#index
      .search(query)
      .slice(0, k)
      .map(({ id }) => id)
  }
}

interface LunrBuilder {
  field(name: string): void
  add(document: object): void
}

interface LunrIndex {
  query(build: (query: { term(words: unknown): void }) => void): readonly { readonly ref: string }[]
}

interface LunrModule {
  (build: (this: LunrBuilder) => void): LunrIndex
  tokenizer(text: string): unknown
}

class Lunr extends SynchronousContender {
  readonly #lunr = require('lunr') as LunrModule
  #index: LunrIndex | undefined

  protected add(texts: readonly string[]): void {
    this.#index = this.#lunr(function () {
      this.field('text')
      for (const [id, text] of texts.entries()) this.add({ id, text })
    })
  }

  protected find(query: string, k: number): readonly number[] {
    const hits = this.#index!.query((clauses) => clauses.term(this.#lunr.tokenizer(query)))
    return hits.slice(0, k).map(({ ref }) => Number(ref))
  }
}

/** tantivy in a Python process, which measures its own processor time: parsing the query and searching. */
class Tantivy implements Contender {
  readonly #process: ChildProcess
  readonly #answers: AsyncIterator<string>

  constructor(python: string) {
    this.#process = spawn(python, [join(import.meta.dirname, 'tantivy-server.py')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#answers = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]()
  }

  async index(texts: readonly string[]): Promise<number> {
    return (await this.#ask({ texts })).seconds
  }

  async search(queries: readonly string[], k: number): Promise<SearchRun> {
    const { seconds, found } = await this.#ask({ queries, k })
    return { microseconds: (seconds / queries.length) * 1e6, found }
  }

  async #ask(request: object): Promise<{ seconds: number; found: number[][] }> {
    if (!this.#process.stdin!.write(`${JSON.stringify(request)}\n`)) await once(this.#process.stdin!, 'drain')
    const { value, done } = await this.#answers.next()
    if (done) throw new Error('the process of tantivy ended')
    return JSON.parse(value) as { seconds: number; found: number[][] }
  }

  close(): void {
    this.#process.stdin!.end()
  }
}
