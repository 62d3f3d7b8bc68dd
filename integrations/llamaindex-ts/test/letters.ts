import { BaseEmbedding } from '@llamaindex/core/embeddings'

/** Embeds a text by counting its letters: texts with the same letters are near each other. */
export class Letters extends BaseEmbedding {
  // biome-ignore lint/complexity/noUselessConstructor: the inherited one is protected.
  constructor() {
    super()
  }

  override async getTextEmbedding(text: string): Promise<number[]> {
    return Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => text.toLowerCase().split(letter).length - 1)
  }
}
