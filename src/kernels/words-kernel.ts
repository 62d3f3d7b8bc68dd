import { readFileSync } from 'node:fs'

/** The exports of assembly/words.ts. Addresses are byte offsets in the memory of the instance. */
export interface WordsExports {
  /** Adds the best documents of a part to the pool of a query. */
  searchWords(query: number): void
  /** As `searchWords`, for given documents, u32 each in ascending order; their scores, u32 each, go to `out`. */
  searchDocuments(query: number, list: number, size: number, out: number): void
  /** Writes the scores of given documents to `out`. */
  scoreWords(query: number, list: number, size: number, out: number): void
  /** Writes the code plus one of the query's first term in given documents to `out`; 0 where the term is not. */
  findWords(query: number, list: number, size: number, out: number): void
}

let module: WebAssembly.Module | undefined

/** Instantiates the kernel of words over `memory`, which must be shared and at most 65,536 pages. */
export function instantiateWords(memory: WebAssembly.Memory): WordsExports {
  module ??= new WebAssembly.Module(readFileSync(new URL('./generated/words.wasm', import.meta.url)))
  const abort = (): never => {
    throw new Error('the kernel of words called abort')
  }
  return new WebAssembly.Instance(module, { env: { memory, abort } }).exports as unknown as WordsExports
}
