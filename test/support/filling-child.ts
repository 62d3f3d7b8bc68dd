import { join } from 'node:path'
import { DatabaseError } from '../../src/base/errors.ts'
import { createLogger } from '../../src/base/log.ts'
import { openStore } from '../../src/storage/data-store.ts'
import { SmallDisk } from './small-disk.ts'
import { groupOf, insertion } from './stored-points.ts'

/**
 * Fills a small disk with points repeatedly, with changes of many sizes, and prints their outcomes. LMDB reports on
 * stderr when it meets a full disk itself.
 */

const [path] = process.argv.slice(2)
const disk = SmallDisk.at(path!)
const dataDir = join(disk.path, 'data')
const store = await openStore({ dataDir, logger: createLogger({ level: 'silent', pretty: false }) })
/** By slot. */
const stored = new Map<number, string>()
let { sequence } = store
const counts = { inserted: 0, refused: 0, deleted: 0, refusedDeletions: 0 }

async function isStored(commit: () => Promise<void>): Promise<boolean> {
  try {
    await commit()
    return true
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.reason !== 'disk_full') throw error
    return false
  }
}

async function insert(points: number, contentBytes: number): Promise<boolean> {
  const free = Array.from({ length: 10_000 }, (_, slot) => slot).filter((slot) => !stored.has(slot))
  const group = free.slice(0, points).map((slot) => {
    sequence += 1
    return insertion(slot, sequence, 'x'.repeat(contentBytes))
  })
  const isDone = await isStored(() => store.commit(groupOf(group)))
  if (isDone) for (const { slot, id } of group) stored.set(slot, id)
  counts[isDone ? 'inserted' : 'refused'] += 1
  return isDone
}

for (let round = 0; round < 12; round += 1) {
  for (let attempt = 0, refusals = 0; refusals < 15; attempt += 1) {
    // As if another program took all the remaining space, to the last byte.
    if (refusals === 5) disk.fill()
    if (refusals === 10) disk.empty()
    const sizes = [100, 900, 3000, 9000, 40_000] as const
    const contentBytes = sizes[(round + attempt) % sizes.length]!
    if (!(await insert(1 + ((attempt * 7) % 30), contentBytes))) refusals += 1
  }
  for (const [slot, id] of [...stored].filter(([each]) => each % 4 === round % 4)) {
    sequence += 1
    const deletion = { kind: 'delete', slot, id, sequence } as const
    const isDone = await isStored(() => store.commit(groupOf([deletion])))
    if (isDone) stored.delete(slot)
    counts[isDone ? 'deleted' : 'refusedDeletions'] += 1
  }
}
await store.close()
process.stdout.write(JSON.stringify(counts))
