import { DatabaseError } from '../base/errors.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import type { SharedDocuments } from './commit-log.ts'
import { fromJson, toJson } from './json-documents.ts'

/**
 * The dimension of the default collection, where not all nodes decide about its first insertion: the node that takes it writes
 * a document before, which no other one can write.
 */
export class FirstDimension {
  readonly #documents: Pick<SharedDocuments, 'get' | 'put'>
  #known: number | undefined

  constructor(documents: Pick<SharedDocuments, 'get' | 'put'>) {
    this.#documents = documents
  }

  /** As far as this node knows. */
  get known(): number | undefined {
    return this.#known
  }

  /**
   * Makes the dimension of a vector that of all, unless there is one.
   *
   * @param path of the vector in the request
   * @throws DatabaseError `invalid_argument` when another one is fixed; `not_ready` when the log servers do not answer
   */
  async fix(length: number, path: string): Promise<void> {
    this.#known ??= await this.#fixed(length)
    if (this.#known !== length) throw wrongDimension(path, length, this.#known)
  }

  async #fixed(length: number): Promise<number> {
    if ((await this.#documents.put(name, toJson(length), 0)) !== undefined) return length
    const document = await this.#documents.get(name)
    // Servers refuse a second first revision before the first one can be read.
    if (document === undefined) throw new DatabaseError('not_ready', 'another node fixes the dimension')
    return fromJson<number>(document.value)
  }
}

const name = 'dimension'
