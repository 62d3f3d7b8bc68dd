/**
 * A node that applies a log made from a seed and prints its position. It stops after the last record, or kills itself
 * after `killAfter` records since its start.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { SimulatedNode } from './cluster-nodes.ts'
import { logFromSeed, pacedLog } from './log-from-seed.ts'
import { SharedMemoryDocuments } from './memory-log.ts'

const [dataDir, seed, records, killAfter = 'Infinity'] = process.argv.slice(2)
const log = await logFromSeed(Number(seed), Number(records))

/** So few that no single group of records takes a node from its start to the end of the log. */
const recordsUnderWay = 50

/** Delivers the next record only while few records are being applied. */
const paced = pacedLog(log, (position, from) => {
  const applied = Math.max(from - 1, child.running?.node.position ?? 0)
  return position <= applied + recordsUnderWay
})

const child = new SimulatedNode({
  name: 'child',
  log: paced,
  documents: new SharedMemoryDocuments(),
  dataDir,
  nowUs: () => 0,
})
const { node, stop } = await child.start()
const from = node.position
process.stdout.write(`from ${from}\n`)
for (let said = -1; said < log.bounds.last; await delay(1)) {
  if (node.position === said) continue
  said = node.position
  process.stdout.write(`at ${said}\n`)
  // The writer threads can be at any point of their work.
  if (said - from >= Number(killAfter)) process.kill(process.pid, 'SIGKILL')
}
await stop()
process.stdout.write('done\n')
