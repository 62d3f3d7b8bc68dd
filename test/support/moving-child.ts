/**
 * A node that applies a log made from a seed and receives and drops random partitions until it has applied all of the
 * log. Every message between this node and the node that sends it partitions lets the log advance a little.
 */
import { writeFileSync } from 'node:fs'
import { PartitionSet } from '../../src/base/partitions.ts'
import { logFromSeed, pacedLog } from './log-from-seed.ts'
import { MovingPair } from './moving-pair.ts'
import { seededRandom } from './random.ts'

const [directory, seed, records, life, countPath] = process.argv.slice(2)
const log = await logFromSeed(Number(seed), Number(records))
let admitted = 0

const pair = new MovingPair({
  directory: directory!,
  log: pacedLog(log, (position) => position <= admitted),
  onMessage: () => {
    admitted += 4
  },
})
const { node: giver, stop: stopGiver } = (await pair.giver.start())!
const { node: taker, stop: stopTaker } = (await pair.taker.start())!
admitted = Math.max(giver.position, taker.position)
// Disk steps are counted from here on.
writeFileSync(countPath!, '')
const random = seededRandom(Number(seed) * 1000 + Number(life))
const never = new AbortController().signal
const isPicked = (): boolean => random() < 0.4
for (let moves = 0; taker.position < log.bounds.last || moves < 4; moves += 1) {
  const { held } = taker
  const isTaken = held.size < 60 || (held.size < 200 && random() < 0.6)
  const picked = PartitionSet.of(
    [...PartitionSet.all()].filter((each) => held.has(each) !== isTaken && isPicked()),
  )
  if (isTaken) await taker.takePartitions(picked, 'giver', never)
  else await taker.dropPartitions(picked, never)
  admitted += 10
  process.stdout.write(`${isTaken ? 'took' : 'dropped'} ${picked.size} at ${taker.position}\n`)
}
await stopTaker()
await stopGiver()
process.stdout.write('done\n')
