import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'
import { call, isAbort, messageOf } from '../api/client.ts'
import type { CollectionInfo } from '../api/types.ts'
import { collectionName } from './route.ts'

/** All collections; undefined until the first response. */
export const collections: Signal<readonly CollectionInfo[] | undefined> = signal(undefined)
export const collectionsFault: Signal<string | undefined> = signal(undefined)

/** The selected collection, found by its name or an alias. */
export const currentCollection: ReadonlySignal<CollectionInfo | undefined> = computed(() =>
  collections.value?.find(
    ({ name, aliases }) => name === collectionName.value || aliases.includes(collectionName.value),
  ),
)

/** A notice that the figures are incomplete because no node responds for some partitions; undefined if complete. */
export const uncounted: ReadonlySignal<string | undefined> = computed(() => {
  const { missing = 0, total = 0 } = collections.value?.[0]?.partitions ?? {}
  if (missing === 0) return undefined
  return `No node responds for ${missing} of ${total} partitions, so their points are not counted.`
})

/** The model that embeds texts; undefined if the server has no embeddings. */
export const embeddingModel: ReadonlySignal<string | undefined> = computed(
  () => collections.value?.[0]?.embedding_model,
)

export async function loadCollections(): Promise<void> {
  try {
    const answer = await call<{ readonly collections: readonly CollectionInfo[] }>('GET', 'collections')
    collections.value = answer.collections
    collectionsFault.value = undefined
  } catch (error) {
    if (!isAbort(error)) collectionsFault.value = messageOf(error)
  }
}
