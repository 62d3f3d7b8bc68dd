import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { attributesToJson, jsonNumbers } from '../../base/attribute-json.ts'
import { DateTime } from '../../base/attributes.ts'
import { formatDateTime } from '../../base/datetime.ts'
import { newId } from '../../base/new-ids.ts'
import type { Payload } from '../../base/point.ts'
import { makeDirectory, setAsidePath } from '../files/data-directory.ts'
import { writeWholeFile } from '../files/whole-file.ts'
import {
  decodeBlock,
  emptyBlock,
  emptyQueue,
  encodeBlock,
  encodeDatabaseId,
  encodeMeta,
  metaKeys,
  rowsHeader,
} from '../key-layout.ts'
import { removeRequests } from '../keyed-requests.ts'
import { hasSoundAttributes, payloadOf, splitRecord } from '../payload-record.ts'
import type { DamagedPoint, Findings, Survey } from './survey.ts'

/**
 * Removes damaged points from the data, so that the rest can be served:
 *
 *   write their remains to a file, sync ─> write the header of vectors.rows, sync ─> one LMDB transaction
 *
 * If the process is killed before the transaction, the damage is unchanged and there is at most one extra file; after
 * it, the repair is complete. So it can always be repeated. Removed points take sequence numbers as if they had been
 * deleted: otherwise a graph on disk could mistake the next point in a slot for the removed one. The database gets a
 * new id, because its history is no longer that of its snapshots. If any record of an idempotency key is damaged, all
 * of them are removed.
 *
 * @returns the file with the points that were set aside; undefined if there were none
 */
export async function repair(survey: Survey, findings: Findings): Promise<string | undefined> {
  const { damage } = findings
  const file = damage.length === 0 ? undefined : await keep(survey, damage)
  const { dimension } = survey.meta
  if (dimension !== undefined) writeHeader(survey.tables.files.rows, dimension)
  commit(survey, findings)
  return file
}

async function keep(survey: Survey, damage: readonly DamagedPoint[]): Promise<string> {
  const directory = setAsidePath(survey.dataDir)
  makeDirectory(directory)
  const whose = encodeURIComponent(survey.tables.files.collection)
  const name = `points-${whose}-${new Date().toISOString().replaceAll(':', '-')}.jsonl`
  const { path } = await writeWholeFile(join(directory, 'partial'), async (file) => {
    for (const point of damage) await file.writeFile(lineOf(survey, point))
    return join(directory, name)
  })
  return path
}

/** Formats a damaged point as a line of JSON: undamaged parts as `import` reads them, damaged parts as bytes. */
function lineOf(survey: Survey, { slot, id, fault }: DamagedPoint): string {
  const { row, payload } = survey.bytesOf(slot)
  const sequence = row?.verify()
  const record = payload && splitRecord(payload)
  const whole = record && hasSoundAttributes(record) ? payloadOf(record) : undefined
  const fields = JSON.stringify({
    id,
    slot,
    fault,
    ...(sequence === undefined ? { damaged_row: row?.bytes.toString('base64') } : { sequence }),
    ...(whole === undefined ? { damaged_payload: payload?.toString('base64') } : fieldsOf(whole)),
    ...(record === undefined ? {} : { version: record.version, order: record.order }),
  })
  return sequence === undefined
    ? `${fields}\n`
    : `${fields.slice(0, -1)},"vector":${jsonNumbers(row!.vector)}}\n`
}

function fieldsOf({ contentType, content, attributes, expiresAtUs }: Payload): object {
  return {
    content_type: contentType,
    content,
    ...(attributes === undefined ? {} : { attributes: JSON.parse(attributesToJson(attributes)) as object }),
    ...(expiresAtUs === undefined ? {} : { expires_at: formatDateTime(new DateTime(expiresAtUs)) }),
  }
}

function writeHeader(path: string, dimension: number): void {
  const file = openSync(path, 'r+')
  try {
    const header = rowsHeader(dimension)
    for (let at = 0; at < header.length; ) at += writeSync(file, header, at, header.length - at, at)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function commit({ meta, tables, requestFaults }: Survey, { damage, points, newest, live }: Findings): void {
  const blocks = [...new Set([...tables.live.getKeys(), ...live.keys()])]
  const sequence = Math.max(meta.sequence, newest) + damage.length
  tables.root.transactionSync(() => {
    for (const { slot } of damage) tables.payloads.removeSync(slot)
    for (const block of blocks) {
      const bits = live.get(block) ?? emptyBlock
      const stored = tables.live.getBinary(block)
      const isSame = stored !== undefined && decodeBlock(block, stored)?.equals(bits)
      if (!isSame) tables.live.putSync(block, encodeBlock(block, bits))
    }
    // Remove all, not some: a repeated request that is not recognized would store its points twice.
    const removesRequests = requestFaults.length > 0
    if (removesRequests) removeRequests(tables.meta)
    const keyedRequests = removesRequests ? emptyQueue : meta.keyedRequests
    // A replica that has lost points is no longer a replica. It joins its cluster again.
    const repaired = { ...meta, sequence, pointCount: points, keyedRequests, applied: undefined }
    tables.meta.putSync(metaKeys.state, encodeMeta(repaired))
    tables.meta.putSync(metaKeys.databaseId, encodeDatabaseId(newId()))
  })
}
