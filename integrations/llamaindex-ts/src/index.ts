export { type SearchOptions, type StoreOptions, VicinalVectorStore } from './vector-store.ts'
