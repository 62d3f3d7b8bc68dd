/**
 * A node that applies a log made from a seed and says how far it is. It lives until it has applied all of it, or kills itself
 * once it has applied so many records since its start.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { SharedMemoryDocuments } from '../../src/cluster/memory-documents.ts'
import { SimulatedNode } from './cluster-nodes.ts'
import { logFromSeed, pacedLog } from './log-from-seed.ts'

const [dataDir, seed, records, killAfter = 'Infinity'] = process.argv.slice(2)
const log = await logFromSeed(Number(seed), Number(records))

/** So few that no group of records on their way to the disk takes a node from its start to the end of the log. */
const recordsUnderWay = 50

/** The next record comes when few are being applied. */
const paced = pacedLog(log, (position, from) => {
  const applied = Math.max(from - 1, child.running?.node.position ?? 0)
  return position <= applied + recordsUnderWay
})

const child = new SimulatedNode({
  ...{ name: 'child', log: paced, documents: new SharedMemoryDocuments(), dataDir, nowUs: () => 0 },
})
const { node, stop } = await child.start()
const from = node.position
process.stdout.write(`from ${from}\n`)
for (let said = -1; said < log.bounds.last; await nextTurn()) {
  if (node.position === said) continue
  said = node.position
  process.stdout.write(`at ${said}\n`)
  // At any moment of the threads that write.
  if (said - from >= Number(killAfter)) process.kill(process.pid, 'SIGKILL')
}
await stop()
process.stdout.write('done\n')
