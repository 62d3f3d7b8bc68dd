import { Embeddings } from '@langchain/core/embeddings'

/** Counts letters: a text is near another that has the same ones. */
export class Letters extends Embeddings {
  constructor() {
    super({})
  }

  override async embedDocuments(texts: string[]): Promise<number[][]> {
    return Promise.all(texts.map((text) => this.embedQuery(text)))
  }

  override async embedQuery(text: string): Promise<number[]> {
    return Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => text.toLowerCase().split(letter).length - 1)
  }
}
