import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf'
import { assert } from '../base/errors.ts'

/**
 * The fields of a message as reader and writer need them, from the descriptors that protobuf-es generates from proto/.
 *
 * Why do we not encode and decode with protobuf-es itself?
 *
 * 1. It creates an object for each nested message before anyone can count or refuse it: two bytes of a request become
 *    a hundred bytes of memory. Our reader leaves nested messages encoded until they are asked for.
 * 2. It creates a number for each component of a vector. Ours copies vectors in one piece, or reads them in place.
 * 3. Writing ten hits with content and attributes took it 292 microseconds, and the writer by hand 48, on the event
 *    loop, which has about as much to do for the whole search.
 * 4. It accepts a nested message that is longer than its parent, and a field with the wrong wire type.
 *
 * It is the reference in the tests, which write and read every message of proto/ with both.
 */
interface MessageFields {
  /** By number; numbers are small. */
  readonly byNumber: readonly (Field | undefined)[]
  /** In the order of the writer, which writes backwards. */
  readonly descending: readonly Field[]
  /** What the reader returns for a message without fields. */
  readonly absent: Readonly<Record<string, unknown>>
}

type FieldKind =
  | ('text' | 'bytes' | 'bool' | 'message')
  | ('int32' | 'uint32' | 'int64' | 'uint64' | 'float' | 'double')

export interface Field {
  readonly number: number
  readonly name: string
  readonly kind: FieldKind
  /** The wire type of one value. */
  readonly wireType: number
  readonly isList: boolean
  /** For a map, the fields of its entries, 1 and 2. The map is a list of them on the wire. */
  readonly entry: readonly [key: Field, value: Field] | undefined
  readonly oneof: string | undefined
  /** Whether the default value is written, too. */
  readonly isExplicit: boolean
  /** The message of a field of the kind `message`. */
  readonly message: DescMessage | undefined
}

export const wireVarint = 0
export const wireFixed64 = 1
export const wireLength = 2
export const wireGroupStart = 3
export const wireGroupEnd = 4
export const wireFixed32 = 5

export function fieldsOf(schema: DescMessage): MessageFields {
  const before = known.get(schema)
  if (before !== undefined) return before
  const fields = describe(schema)
  known.set(schema, fields)
  return fields
}

const known = new WeakMap<DescMessage, MessageFields>()

function describe(schema: DescMessage): MessageFields {
  const fields = schema.fields.map(fieldOf)
  const byNumber: Field[] = []
  // An object to which more than a dozen names are added one by one is a hash table, and takes 30 times as long to copy.
  const names = fields.map(({ oneof, name }) => `${JSON.stringify(oneof ?? name)}: null`)
  const absent: Record<string, unknown> = JSON.parse(`{${names}}`)
  for (const field of fields) {
    byNumber[field.number] = field
    if (field.oneof !== undefined) absent[field.oneof] = noCase
    else if (field.isList) absent[field.name] = nothing
    else absent[field.name] = field.isExplicit ? undefined : kinds[field.kind].absent
  }
  return { byNumber, descending: fields.toSorted((a, b) => b.number - a.number), absent }
}

const noCase = { case: undefined }
const nothing: readonly string[] = []

function fieldOf(field: DescField): Field {
  const { number, localName: name, fieldKind } = field
  const kind = kindOf(field)
  const isListed = kind === 'message' || kind === 'text' || kind === 'float'
  assert(fieldKind !== 'list' || isListed, `the reader of messages can read the list ${field}`)
  return {
    number,
    name,
    kind,
    wireType: kinds[kind].wireType,
    isList: fieldKind === 'list' || fieldKind === 'map',
    entry: fieldKind === 'map' ? [part(1, 'text'), part(2, kind, field.message)] : undefined,
    oneof: field.oneof?.localName,
    isExplicit: field.oneof !== undefined || field.presence === explicitPresence,
    message: field.message,
  }
}

/** `FeatureSet.FieldPresence.EXPLICIT` of google/protobuf/descriptor.proto. */
const explicitPresence = 1

function part(number: number, kind: FieldKind, message?: DescMessage): Field {
  const entry = { isList: false, entry: undefined, oneof: undefined, isExplicit: true }
  return { number, name: '', kind, wireType: kinds[kind].wireType, message, ...entry }
}

function kindOf(field: DescField): FieldKind {
  if (field.message !== undefined) return 'message'
  if (field.enum !== undefined) return 'int32'
  const kind = (Object.keys(kinds) as FieldKind[]).find((each) => kinds[each].scalar === field.scalar)
  assert(kind !== undefined, `the reader of messages knows the type of ${field}`)
  return kind
}

/** The types that occur in proto/, on the wire and when they are absent. */
const kinds: Readonly<Record<FieldKind, { scalar?: ScalarType; wireType: number; absent?: unknown }>> = {
  text: { scalar: ScalarType.STRING, wireType: wireLength, absent: '' },
  bytes: { scalar: ScalarType.BYTES, wireType: wireLength, absent: Buffer.alloc(0) },
  bool: { scalar: ScalarType.BOOL, wireType: wireVarint, absent: false },
  int32: { scalar: ScalarType.INT32, wireType: wireVarint, absent: 0 },
  uint32: { scalar: ScalarType.UINT32, wireType: wireVarint, absent: 0 },
  int64: { scalar: ScalarType.INT64, wireType: wireVarint, absent: 0 },
  uint64: { scalar: ScalarType.UINT64, wireType: wireVarint, absent: 0 },
  float: { scalar: ScalarType.FLOAT, wireType: wireFixed32, absent: 0 },
  double: { scalar: ScalarType.DOUBLE, wireType: wireFixed64, absent: 0 },
  message: { wireType: wireLength },
}
