import type {
  CollectionInput,
  HnswInput,
  PutCollectionInput,
  SetAliasesInput,
} from '../../api/collections.ts'
import type { OperationName } from '../../api/operations.ts'
import type { CollectionInfo } from '../../base/collection.ts'
import type { Codec } from './codec-types.ts'
import { allocateMessage } from './frames.ts'
import { WireReader, wireLength, wireVarint, writeHead, writeVarint } from './wire.ts'

type CollectionOperation =
  | 'ListCollections'
  | 'GetCollection'
  | 'PutCollection'
  | 'DeleteCollection'
  | 'SetAliases'

/** The codecs for collections. Their messages are small and rare, so they are concatenated from parts. */
export const collectionCodecs: { readonly [Name in CollectionOperation & OperationName]: Codec<Name> } = {
  ListCollections: {
    decode: decodeNothing,
    encode: (collections) => messageOf(collections.map((each) => field(1, encodeCollection(each)))),
  },
  GetCollection: { decode: decodeName, encode: (collection) => messageOf([encodeCollection(collection)]) },
  PutCollection: {
    decode: decodePut,
    encode: ({ info, created }) => messageOf([field(1, encodeCollection(info)), number(2, Number(created))]),
  },
  DeleteCollection: { decode: decodeName, encode: () => messageOf([]) },
  SetAliases: {
    decode: decodeAliases,
    encode: (aliases) => messageOf([...aliases].map((entry) => field(1, encodeEntry(entry)))),
  },
}

/** Decodes a message without fields. All its fields are unknown, but they must be well formed. */
function decodeNothing(bytes: Buffer): undefined {
  const message = new WireReader(bytes)
  while (message.next()) message.skip()
}

function decodeName(bytes: Buffer): CollectionInput {
  const message = new WireReader(bytes)
  let name: string | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) name = message.string()
    else message.skip()
  }
  return { name }
}

function decodePut(bytes: Buffer): PutCollectionInput {
  const message = new WireReader(bytes)
  let name: string | undefined
  let dimension: number | bigint | undefined
  let hnsw: HnswInput | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) name = message.string()
    else if (message.is(2, wireVarint)) dimension = message.uint64()
    else if (message.is(3, wireLength)) hnsw = readHnsw(message.message(), hnsw)
    else message.skip()
  }
  return { name, dimension, hnsw }
}

/** @param before the fields of an earlier occurrence of the message */
function readHnsw(message: WireReader, before: HnswInput | undefined): HnswInput {
  let { m, efConstruction } = before ?? {}
  while (message.next()) {
    if (message.is(1, wireVarint)) m = message.uint64()
    else if (message.is(2, wireVarint)) efConstruction = message.uint64()
    else message.skip()
  }
  return { m, efConstruction }
}

function decodeAliases(bytes: Buffer): SetAliasesInput {
  const message = new WireReader(bytes)
  const set = new Map<string, string>()
  const remove: string[] = []
  while (message.next()) {
    if (message.is(1, wireLength)) set.set(...readEntry(message.message()))
    else if (message.is(2, wireLength)) remove.push(message.string())
    else message.skip()
  }
  return { set, remove }
}

/** Reads an entry of a map. A missing key or value is empty. */
function readEntry(message: WireReader): [string, string] {
  const entry: [string, string] = ['', '']
  while (message.next()) {
    if (message.is(1, wireLength)) entry[0] = message.string()
    else if (message.is(2, wireLength)) entry[1] = message.string()
    else message.skip()
  }
  return entry
}

function encodeEntry([alias, collection]: readonly [string, string]): Buffer {
  return Buffer.concat([field(1, Buffer.from(alias)), field(2, Buffer.from(collection))])
}

function encodeCollection(collection: CollectionInfo): Buffer {
  const { name, dimension, points, hnsw, aliases, embeddingModel } = collection
  return Buffer.concat([
    field(1, Buffer.from(name)),
    dimension === undefined ? nothing : number(2, dimension),
    number(3, points),
    field(4, encodeHnsw(hnsw)),
    ...aliases.map((alias) => field(5, Buffer.from(alias))),
    embeddingModel === undefined ? nothing : field(6, Buffer.from(embeddingModel)),
  ])
}

function encodeHnsw({ m, efConstruction }: CollectionInfo['hnsw']): Buffer {
  return Buffer.concat([number(1, m), number(2, efConstruction)])
}

const nothing = Buffer.alloc(0)

function messageOf(parts: readonly Buffer[]): Buffer {
  const whole = Buffer.concat(parts)
  const target = allocateMessage(whole.length)
  whole.copy(target)
  return target
}

/** A length-delimited field. */
function field(at: number, bytes: Buffer): Buffer {
  const head = Buffer.alloc(headBytesMax)
  return Buffer.concat([head.subarray(0, writeHead(head, 0, at, bytes.length)), bytes])
}

/** A varint field for a whole number below 2^32. */
function number(at: number, value: number): Buffer {
  const target = Buffer.alloc(headBytesMax)
  return target.subarray(0, writeVarint(target, writeVarint(target, 0, at * 8 + wireVarint), value))
}

/** The maximum size of a tag and a varint of 32 bits. */
const headBytesMax = 10
