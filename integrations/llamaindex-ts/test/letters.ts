import { BaseEmbedding } from '@llamaindex/core/embeddings'

/** Counts letters: a text is near another that has the same ones. */
export class Letters extends BaseEmbedding {
  // biome-ignore lint/complexity/noUselessConstructor: the inherited one is protected.
  constructor() {
    super()
  }

  override async getTextEmbedding(text: string): Promise<number[]> {
    return Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => text.toLowerCase().split(letter).length - 1)
  }
}
