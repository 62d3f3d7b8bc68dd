import type { ChangeByFilterInput, Changed } from '../../api/change-by-filter.ts'
import type { PatchInput } from '../../api/patch.ts'
import type { PatchPointInput } from '../../api/patch-point.ts'
import type { PreconditionInput } from '../../api/precondition.ts'
import type { PutPointInput } from '../../api/put-point.ts'
import { checkDateTime } from '../../base/attribute-checks.ts'
import { inTurns } from '../../base/turns.ts'
import { readSet } from './attribute-codec.ts'
import { BackwardWriter } from './backward-writer.ts'
import type { Codec } from './codec-types.ts'
import { readFilterInTurns } from './filter-codec.ts'
import { readNestedId } from './id-codec.ts'
import { addPath } from './include-codec.ts'
import { filterField } from './list-codec.ts'
import { MergedMessage, Oneof } from './merged-message.ts'
import { messageOf } from './messages.ts'
import { type PayloadParts, readPayload, wholePayload } from './payload-codec.ts'
import { copiesOf, FloatList, readValues, type VectorOf } from './vectors.ts'
import { WireReader, wireLength, wireVarint } from './wire.ts'

type WriteOperation = 'PutPoint' | 'PatchPoint' | 'UpdatePoints' | 'DeletePoints'

/** The codecs of writes, except inserts. */
export const writeCodecs: { readonly [Name in WriteOperation]: Codec<Name> } = {
  PutPoint: { decode: (bytes) => inTurns(readPut(bytes)), encode: encodeWritten },
  PatchPoint: { decode: (bytes) => inTurns(readPatchPoint(bytes)), encode: encodeWritten },
  UpdatePoints: { decode: (bytes) => inTurns(readChange(bytes)), encode: encodeChanged },
  DeletePoints: { decode: (bytes) => inTurns(readChange(bytes)), encode: encodeChanged },
}

function* readPut(bytes: Buffer): Generator<undefined, PutPointInput, void> {
  const message = new WireReader(bytes)
  const when = new MergedMessage()
  let id: string | undefined
  let vector: FloatList | undefined
  let payload: PayloadParts | undefined
  let text: string | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) id = readNestedId(message.message(), id)
    else if (message.is(2, wireLength)) {
      vector = readValues(message.message(), vector ?? new FloatList(copiesOf(bytes)))
    } else if (message.is(3, wireLength)) payload = readPayload(message.message(), payload)
    else if (message.is(4, wireLength)) when.add(message.view())
    else if (message.is(5, wireLength)) text = message.string()
    else message.skip()
  }
  return {
    id,
    vector: vector?.toVector(),
    ...(text === undefined ? {} : { text }),
    payload: payload && wholePayload(payload, () => ''),
    ...(yield* whenField(when)),
  }
}

function* readPatchPoint(bytes: Buffer): Generator<undefined, PatchPointInput, void> {
  const message = new WireReader(bytes)
  const patch = new MergedMessage()
  const when = new MergedMessage()
  let id: string | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) id = readNestedId(message.message(), id)
    else if (message.is(2, wireLength)) patch.add(message.view())
    else if (message.is(3, wireLength)) when.add(message.view())
    else message.skip()
  }
  return { id, ...patchField(patch, copiesOf(bytes)), ...(yield* whenField(when)) }
}

function* readChange(bytes: Buffer): Generator<undefined, ChangeByFilterInput, void> {
  const message = new WireReader(bytes)
  const filter = new MergedMessage()
  const patch = new MergedMessage()
  let limit: number | bigint = 0
  let dryRun = false
  let everything = false
  while (message.next()) {
    if (message.is(1, wireLength)) filter.add(message.view())
    else if (message.is(2, wireLength)) patch.add(message.view())
    else if (message.is(3, wireVarint)) limit = message.uint64()
    else if (message.is(4, wireVarint)) dryRun = message.bool()
    else if (message.is(5, wireVarint)) everything = message.bool()
    else message.skip()
  }
  return {
    dryRun,
    everything,
    ...(limit === 0 ? {} : { limit }),
    ...patchField(patch, copiesOf(bytes)),
    ...(yield* filterField(filter)),
  }
}

function patchField(patch: MergedMessage, vectorOf: VectorOf): { patch?: PatchInput } {
  return patch.isEmpty ? {} : { patch: readPatch(patch.reader(), vectorOf) }
}

function readPatch(message: WireReader, vectorOf: VectorOf): PatchInput {
  const set = new MergedMessage()
  const unset: string[] = []
  let vector: FloatList | undefined
  const scalars: { content?: string; contentType?: number; expiresAtUs?: number; text?: string } = {}
  while (message.next()) {
    if (message.is(1, wireLength)) set.add(message.view())
    else if (message.is(2, wireLength)) addPath(unset, message, 'patch.unset')
    else if (message.is(3, wireLength)) scalars.content = message.string()
    else if (message.is(4, wireVarint)) scalars.contentType = message.int32()
    else if (message.is(5, wireVarint)) {
      scalars.expiresAtUs = checkDateTime(message.int64(), 'patch.expires_at_us').us
    } else if (message.is(6, wireLength)) {
      vector = readValues(message.message(), vector ?? new FloatList(vectorOf))
    } else if (message.is(7, wireLength)) scalars.text = message.string()
    else message.skip()
  }
  return {
    ...scalars,
    ...(set.isEmpty ? {} : { set: readSet(set.reader(), 'patch.set') }),
    ...(unset.length === 0 ? {} : { unset }),
    ...(vector === undefined ? {} : { vector: vector.toVector() }),
  }
}

function* whenField(when: MergedMessage): Generator<undefined, { when?: PreconditionInput }, void> {
  return when.isEmpty ? {} : { when: yield* readPrecondition(when.reader()) }
}

function* readPrecondition(message: WireReader): Generator<undefined, PreconditionInput, void> {
  const test = new Oneof()
  let version: number | bigint = 0
  let absent = false
  while (message.next()) {
    if (message.is(1, wireVarint)) {
      version = message.uint64()
      test.setScalar(1)
    } else if (message.is(2, wireLength)) test.setMessage(2, message.view())
    else if (message.is(3, wireVarint)) {
      absent = message.bool()
      test.setScalar(3)
    } else message.skip()
  }
  if (test.field === 1) return { version }
  if (test.field === 2) return { filter: yield* readFilterInTurns(test.reader(), 'when.filter') }
  return test.field === 3 ? { absent } : {}
}

/**
 * Encodes the answer to a put or a patch. A patch never creates a point, so its `created` is absent, which means false.
 */
function encodeWritten(written: {
  readonly id: string
  readonly version: number
  readonly created?: boolean
}): Buffer {
  const writer = new BackwardWriter()
  writer.flag(3, written.created === true)
  writer.number(2, written.version)
  writer.pointId(1, written.id)
  return messageOf(writer)
}

function encodeChanged({ changed, more }: Changed): Buffer {
  const writer = new BackwardWriter()
  writer.flag(2, more)
  writer.number(1, changed)
  return messageOf(writer)
}
