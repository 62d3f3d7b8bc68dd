import { Embeddings } from '@langchain/core/embeddings'

/** Embeds a text by counting its letters: texts with the same letters are near each other. */
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
