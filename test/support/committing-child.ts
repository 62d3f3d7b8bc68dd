import { createLogger } from '../../src/base/log.ts'
import { newId } from '../../src/base/partitions.ts'
import { openStore } from '../../src/storage/data-store.ts'
import { groupOf } from './stored-points.ts'

/** Commits groups of points until it is killed, and prints each group once it is acknowledged. */

const [dataDir, round] = process.argv.slice(2)
const store = await openStore({ dataDir: dataDir!, logger: createLogger({ level: 'silent', pretty: false }) })
let { slotCount, sequence } = store
for (let group = 0; ; group += 1) {
  const name = `${round}/${group}`
  const size = 1 + (group % 40)
  const insertions = Array.from({ length: size }, () => {
    sequence += 1
    slotCount += 1
    const vector = new Float32Array(64).fill(sequence)
    return {
      kind: 'insert' as const,
      slot: slotCount - 1,
      id: newId(),
      sequence,
      point: { vector, payload: { contentType: 'Text', content: name } as const },
    }
  })
  await store.commit(groupOf(insertions))
  process.stdout.write(`${name} ${size}\n`)
}
