export { type DeleteSelection, type StoreOptions, VicinalVectorStore } from './vector-store.ts'
