/** A node that applies a log made from a seed, says how far it is, and lives until it has applied all of it. */
import { SharedMemoryDocuments } from '../../src/cluster/memory-documents.ts'
import { SimulatedNode } from './cluster-nodes.ts'
import { logFromSeed, readOnly } from './log-from-seed.ts'

const [dataDir, seed, records] = process.argv.slice(2)
const log = await logFromSeed(Number(seed), Number(records))
const setup = {
  name: 'child',
  log: readOnly(log),
  documents: new SharedMemoryDocuments(),
  dataDir,
  nowUs: () => 0,
}
const { node, stop } = await new SimulatedNode(setup).start()
process.stdout.write(`from ${node.position}\n`)
for (let said = -1; said < log.bounds.last; ) {
  if (node.position !== said) {
    said = node.position
    process.stdout.write(`at ${said}\n`)
  }
  await new Promise((resolve) => setImmediate(resolve))
}
await stop()
process.stdout.write('done\n')
