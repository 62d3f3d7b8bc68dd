export { distance64, dot32, dot64, euclidean32, hamming, manhattan32 } from './distances'
export { scan, sortPool } from './scan'
export { encodeQuery, encodeStored } from './codes'
export {
  adopt,
  attachGraph,
  encodeSlot,
  insertSlot,
  releaseLeaving,
  repairRange,
  searchGraph,
} from './graph'
