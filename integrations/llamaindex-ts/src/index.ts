export { type StoreOptions, VicinalVectorStore } from './vector-store.ts'
