/**
 * The recorded program: opens the engine over a data directory, inserts, changes, deletes, checkpoints the index,
 * closes and opens again. Before each request of a change and after its acknowledgement it appends a line to a separate
 * file, so that the record of system calls shows these moments.
 *
 *   node test/crash/recorded-run.ts <data directory> <file of notes> <seed>
 */
import { openSync, writeSync } from 'node:fs'
import type { Filter } from '../../src/base/filter.ts'
import { idToBytes } from '../../src/base/ids.ts'
import { createLogger } from '../../src/base/log.ts'
import type { Collection } from '../../src/collections/engine.ts'
import { seededRandom } from '../support/random.ts'
import { afterChange, type GroupChange, insertNoted, type Note } from './notes.ts'
import { openPoints } from './points.ts'

const [dataDir, notesPath, seed] = process.argv.slice(2)
const random = seededRandom(Number(seed))
const notes = openSync(notesPath!, 'a')
const live: string[] = []
/** By point id: the number of its insert. */
const insertOf = new Map<string, number>()
let inserts = 0
let changes = 0

for (let life = 0; life < 2; life += 1) {
  await using points = await openPoints(dataDir!, createLogger({ level: 'silent', pretty: false }))
  for (let turn = 0; turn < 12; turn += 1) {
    // Several concurrently, so that some share a commit.
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
  if (random() < 0.25 && live.length > 0) return await changeInsert(collection)
  inserts += 1
  const insert = { number: inserts, count: random() < 0.7 ? 1 : 2 + Math.floor(random() * 40) }
  note({ kind: 'inserting', ...insert })
  const ids = await insertNoted(collection, insert)
  note({ kind: 'inserted', number: insert.number, ids })
  for (const id of ids) insertOf.set(id, insert.number)
  live.push(...ids)
}

/** Changes all points of an insert, or moves or puts one of them. No other change may touch them meanwhile. */
async function changeInsert(collection: Collection): Promise<void> {
  const insert = insertOf.get(live[Math.floor(random() * live.length)]!)!
  const how = (['update', 'move', 'put', 'delete', 'expire'] as const)[Math.floor(random() * 5)]!
  const all = live.filter((id) => insertOf.get(id) === insert)
  const ids = how === 'move' || how === 'put' ? all.slice(0, 1) : all
  for (const id of ids) live.splice(live.indexOf(id), 1)
  changes += 1
  const change: GroupChange = { number: changes, how, ids }
  note({ kind: 'changing', change })
  await apply(collection, change)
  note({ kind: 'changed', change })
  if (how !== 'delete' && how !== 'expire') live.push(...ids)
}

async function apply(collection: Collection, groupChange: GroupChange): Promise<void> {
  const { number, how, ids } = groupChange
  if (how === 'put') {
    const { vector, payload } = afterChange((await collection.get(ids[0]!))!, groupChange)!
    await collection.put(ids[0]!, { vector, payload })
    return
  }
  const set = new Map([['changed', number]])
  if (how === 'move') {
    const { vector } = (await collection.get(ids[0]!))!
    await collection.patch(ids[0]!, { set, vector: vector.map((value) => -value) })
    return
  }
  const filter: Filter = { kind: 'ids', ids: Buffer.concat(ids.map(idToBytes).sort(Buffer.compare)) }
  const change = how === 'delete' ? how : how === 'expire' ? { expiresAtUs: 1 } : { set }
  await collection.changeByFilter({ filter, change, dryRun: false })
}

function note(each: Note): void {
  writeSync(notes, `${JSON.stringify(each)}\n`)
}
