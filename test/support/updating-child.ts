import { createLogger } from '../../src/base/log.ts'
import { openStore } from '../../src/storage/data-store.ts'
import { contentsOf, groupOf, type PlacedChange } from './stored-points.ts'

/**
 * Changes a few points until it is killed, all of them in each commit. The name of the commit becomes their content,
 * and some also get another vector and thus another slot. Prints each name once the commit is acknowledged.
 */

const [dataDir, round] = process.argv.slice(2)
const store = await openStore({ dataDir: dataDir!, logger: createLogger({ level: 'silent', pretty: false }) })
const slots = new Map([...(await contentsOf(store))].map(([slot, { id }]) => [id, slot]))
let { sequence } = store
for (let commit = 0; ; commit += 1) {
  const name = `${round}/${commit}`
  const free = freeSlots(new Set(slots.values()))
  const changes = [...slots].map(([id, slot], index): PlacedChange => {
    sequence += 1
    const isMoved = index % 3 === commit % 3
    const vector = isMoved ? new Float32Array(64).fill(sequence) : undefined
    const attributes = new Map([['commit', name]])
    const payload = { contentType: 'Text', content: name, attributes } as const
    const place = isMoved ? { slot: free.next().value!, leaving: slot } : { slot }
    return { kind: 'update', id, sequence, order: 1 + index, payload, vector, ...place }
  })
  await store.commit(groupOf(changes))
  for (const { id, slot } of changes) slots.set(id, slot)
  process.stdout.write(`${name}\n`)
}

function* freeSlots(used: ReadonlySet<number>): Generator<number, undefined> {
  for (let slot = 0; ; slot += 1) if (!used.has(slot)) yield slot
}
