export {
  type DeleteSelection,
  type SearchOptions,
  type StoreOptions,
  VicinalVectorStore,
} from './vector-store.ts'
