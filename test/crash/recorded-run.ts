/**
 * The program whose disk is recorded: opens the engine over a data directory, inserts, deletes, checkpoints its
 * index, closes, opens again. Before it asks for a change and after it has been acknowledged it appends a line to a file of its own, so that the
 * record of system calls tells when that was.
 *
 *   node test/crash/recorded-run.ts <data directory> <file of notes> <seed>
 */
import { openSync, writeSync } from 'node:fs'
import { createLogger } from '../../src/base/log.ts'
import type { Collection } from '../../src/engine/engine.ts'
import { insertIds } from '../support/insert-ids.ts'
import { seededRandom } from '../support/random.ts'
import { type Note, pointsOf } from './notes.ts'
import { openPoints } from './points.ts'

const [dataDir, notesPath, seed] = process.argv.slice(2)
const random = seededRandom(Number(seed))
const notes = openSync(notesPath!, 'a')
const live: string[] = []
let inserts = 0

for (let life = 0; life < 2; life += 1) {
  await using points = await openPoints(dataDir!, createLogger({ level: 'silent', pretty: false }))
  for (let turn = 0; turn < 12; turn += 1) {
    // Several at once, so that some share a commit.
    const changes = Array.from({ length: 1 + Math.floor(random() * 4) }, () => change(points.collection))
    await Promise.all(changes)
  }
}

async function change(collection: Collection): Promise<void> {
  if (random() < 0.3 && live.length > 0) {
    const [id] = live.splice(Math.floor(random() * live.length), 1)
    note({ kind: 'removing', id: id! })
    await collection.remove(id!)
    return note({ kind: 'removed', id: id! })
  }
  inserts += 1
  const insert = { number: inserts, count: random() < 0.7 ? 1 : 2 + Math.floor(random() * 40) }
  note({ kind: 'inserting', ...insert })
  const ids = await insertIds(collection, pointsOf(insert))
  note({ kind: 'inserted', number: insert.number, ids })
  live.push(...ids)
}

function note(each: Note): void {
  writeSync(notes, `${JSON.stringify(each)}\n`)
}
