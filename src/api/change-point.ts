import { checkPatchPaths } from '../base/attribute-patch.ts'
import type { Attributes } from '../base/attributes.ts'
import { invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { matchesEveryPoint } from '../base/filter-key.ts'
import { type ContentType, contentTypes, type Patch, type Precondition } from '../base/point.ts'
import type { Database } from '../points/database.ts'
import type { ApiContext, Call } from './call.ts'
import { embedText, pathOfText, textBeside, textOfPoint } from './texts.ts'
import {
  checkEnum,
  checkExpiry,
  checkId,
  checkPayload,
  checkVector,
  checkWhole,
  type EnumInput,
  type IntegerInput,
  type PayloadInput,
  shown,
  unembedded,
} from './validation.ts'

export interface PutPointInput {
  readonly id?: string | undefined
  readonly vector?: Float32Array | undefined
  /** Embedded in place of a vector. */
  readonly text?: string | undefined
  readonly payload?: PayloadInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The HTTP header. */
  readonly ifMatch?: string | undefined
}

/** A point that was stored or changed. */
export interface WrittenPoint {
  readonly id: string
  readonly version: number
}

/**
 * Stores a point under an id that the caller chose, and replaces the point that has it.
 * Fails with `precondition_failed` if `when` is not met.
 */
export async function putPoint(
  context: ApiContext,
  input: PutPointInput,
  call: Call,
): Promise<WrittenPoint & { readonly created: boolean }> {
  const id = checkId(input.id, 'id')
  const { database, embeddings } = context
  const text = textOfPoint(input, embeddings, '')
  const given = text === undefined ? checkVector(input.vector, database.dimension, 'vector') : undefined
  const payload = checkPayload(input.payload, 'payload', database.nowUs)
  const when = checkPrecondition(input.when, input.ifMatch)
  const vector = given ?? (await embedText(context, text!, pathOfText(input, ''), call.signal))
  call.decoded?.()
  const { version, created } = await database.put(id, { vector, payload }, when, call.signal)
  return { id, version, created }
}

export interface PatchPointInput {
  readonly id?: string | undefined
  readonly patch?: PatchInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The HTTP header. */
  readonly ifMatch?: string | undefined
}

/**
 * Changes parts of a point.
 * Fails with `not_found` when no point has this id, and with `precondition_failed` if `when` is not met.
 */
export async function patchPoint(
  context: ApiContext,
  input: PatchPointInput,
  call: Call,
): Promise<WrittenPoint> {
  const id = checkId(input.id, 'id')
  const { database, embeddings } = context
  const path = call.fields.patch
  const text = textBeside(input.patch?.text, input.patch?.vector, embeddings, path)
  const checked = checkPatch(input.patch ?? {}, database, path)
  const when = checkPrecondition(input.when, input.ifMatch)
  const patch =
    text === undefined
      ? checked
      : { ...checked, vector: await embedText(context, text, `${path}text`, call.signal) }
  call.decoded?.()
  const { version } = await database.patch(id, patch, when, call.signal)
  return { id, version }
}

/** Which parts of points to change. */
export interface PatchInput {
  /** Values by path. The transport's reader checks the values, this file the paths. */
  readonly set?: Attributes | undefined
  /** Paths; `$expires_at` removes the expiry, as null for `expires_at` does in JSON. */
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: EnumInput | undefined
  readonly expiresAtUs?: number | null | undefined
  readonly ttlSeconds?: number | undefined
  readonly vector?: Float32Array | undefined
  /** Embedded in place of a vector. A new content alone does not change the vector. */
  readonly text?: string | undefined
}

/**
 * Checks a patch. If it has a text, its vector is `unembedded`.
 *
 * @param path of the patch in the request, with a trailing dot; empty in HTTP, where its fields are those of the body
 * @param names of the fields that the request can have
 * @returns only the fields that change something
 */
function checkPatch(
  input: PatchInput,
  { dimension, nowUs }: Pick<Database, 'dimension' | 'nowUs'>,
  path: string,
  names: readonly string[] = ['set', 'unset', 'content', 'content_type', 'vector', 'expires_at'],
): Patch {
  const { set, content, contentType, vector, text } = input
  const unset = input.unset?.filter((each) => each !== expiryPath)
  const removesExpiry = unset !== undefined && unset.length !== input.unset!.length
  checkPatchPaths({ set, unset }, path)
  const expiresAtUs = checkExpiry(input, path, nowUs)
  if (removesExpiry && typeof expiresAtUs === 'number') {
    throw invalid(`${path}unset has "${expiryPath}", but the patch also sets when the point expires`)
  }
  const patch: Patch = {
    ...(set === undefined || set.size === 0 ? {} : { set }),
    ...(unset === undefined || unset.length === 0 ? {} : { unset }),
    ...(content === undefined ? {} : { content }),
    ...(contentType === undefined
      ? {}
      : { contentType: checkEnum<ContentType>(contentType, contentTypes, `${path}content_type`) }),
    ...(removesExpiry ? { expiresAtUs: null } : expiresAtUs === undefined ? {} : { expiresAtUs }),
    ...(vector === undefined ? {} : { vector: checkVector(vector, dimension, `${path}vector`) }),
    ...(text === undefined ? {} : { vector: unembedded }),
  }
  if (Object.keys(patch).length === 0) {
    throw invalid(`there is nothing to change: send ${names.map((each) => `${path}${each}`).join(', ')}`)
  }
  return patch
}

/** Stands for the expiry in `unset`, in both transports: protobuf has no null. */
const expiryPath = '$expires_at'

/** The field `when` of a write; it has exactly one of these fields. */
export interface PreconditionInput {
  readonly version?: IntegerInput | undefined
  readonly filter?: Filter | undefined
  readonly absent?: boolean | undefined
}

/** @param ifMatch the HTTP header: a version, equivalent to `when: {"version": …}` */
function checkPrecondition(
  input: PreconditionInput | undefined,
  ifMatch: string | undefined,
): Precondition | undefined {
  const when = input === undefined ? undefined : checkWhen(input)
  if (ifMatch === undefined) return when
  const version = versionOf(ifMatch)
  if (when === undefined || (when.kind === 'version' && when.version === version)) {
    return { kind: 'version', version }
  }
  throw invalid(`if-match is ${shown(ifMatch)}, but when asks for something else: send one of them`)
}

function checkWhen(input: PreconditionInput): Precondition {
  const { version, filter, absent } = input
  const given = (['version', 'filter', 'absent'] as const).filter((each) => input[each] !== undefined)
  if (given.length !== 1) {
    const fault = given.length === 0 ? 'when is empty' : `when has ${given.join(' and ')}`
    throw invalid(`${fault}: it takes one of version, filter, absent`)
  }
  if (version !== undefined) {
    return {
      kind: 'version',
      version: checkWhole(version, 'when.version', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    }
  }
  if (filter !== undefined) return { kind: 'filter', filter }
  if (absent === true) return { kind: 'absent' }
  throw invalid('when.absent is false, it must be true: leave it out otherwise')
}

/** Weak tags, lists and `*` are refused: a version is exact. */
function versionOf(ifMatch: string): number {
  const digits = /^(?:"(\d{1,16})"|(\d{1,16}))$/.exec(ifMatch.trim())
  const version = Number(digits?.[1] ?? digits?.[2])
  if (digits !== null && version <= Number.MAX_SAFE_INTEGER) return version
  throw invalid(`if-match is ${shown(ifMatch)}, it must be the version of the point, like "5"`)
}

export interface PointIdInput {
  readonly id?: string | undefined
}

/**
 * Deletes a point; resolves once the deletion is durable and no search can return the point.
 * Resolves with false when there is no such point: HTTP reports that as success, gRPC as NOT_FOUND.
 */
export async function deletePoint(context: ApiContext, input: PointIdInput, call: Call): Promise<boolean> {
  return context.database.remove(checkId(input.id, 'id'), call.signal)
}

export interface ChangeByFilterInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly patch?: PatchInput | undefined
  readonly limit?: IntegerInput | undefined
  readonly dryRun?: boolean | undefined
  /** Whether the caller really means all points: a filter that matches every point, or none, is refused otherwise. */
  readonly everything?: boolean | undefined
}

/** How many points were changed, or would be in a dry run. `more` is true if further points match. */
export interface Changed {
  readonly changed: number
  readonly more: boolean
}

/** Changes attributes or expiry of the matching points in one atomic step; at most 100,000 points per call. */
export async function updatePoints(
  context: ApiContext,
  input: ChangeByFilterInput,
  call: Call,
): Promise<Changed> {
  const { database } = context
  const path = call.fields.patch
  const { content, contentType, vector, text } = input.patch ?? {}
  for (const [field, value] of Object.entries({ content, content_type: contentType, vector, text })) {
    if (value !== undefined) {
      throw invalid(`${path}${field} cannot be changed by filter: only set, unset and expires_at can`)
    }
  }
  const patch = checkPatch(input.patch ?? {}, database, path, ['set', 'unset', 'expires_at'])
  return await changeByFilter(context, input, patch, call)
}

/** Deletes the matching points in one atomic step; at most 100,000 points per call. */
export async function deletePoints(
  context: ApiContext,
  input: ChangeByFilterInput,
  call: Call,
): Promise<Changed> {
  if (input.patch !== undefined) throw invalid('patch is given, but points that are deleted have no changes')
  return await changeByFilter(context, input, 'delete', call)
}

async function changeByFilter(
  { database }: ApiContext,
  { filter, limit, dryRun = false, everything = false }: ChangeByFilterInput,
  change: Patch | 'delete',
  call: Call,
): Promise<Changed> {
  const checkedLimit =
    limit === undefined ? undefined : checkWhole(limit, 'limit', { min: 1, max: Number.MAX_SAFE_INTEGER })
  if (!everything && (filter === undefined || (await matchesEveryPoint(filter)))) {
    const what = filter === undefined ? 'is missing' : isEmpty(filter) ? 'is empty' : 'matches every point'
    throw invalid(`the filter ${what}: send "everything": true to mean all points`)
  }
  const request = { filter: filter ?? allPoints, change, limit: checkedLimit, dryRun }
  call.decoded?.()
  return await database.changeByFilter(request, call.signal)
}

const allPoints: Filter = { kind: 'all', of: [] }

function isEmpty(filter: Filter): boolean {
  return filter.kind === 'all' && filter.of.every(isEmpty)
}
