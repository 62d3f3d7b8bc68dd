import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { PartitionSet } from '../src/base/partitions.ts'
import { ClusterModel } from './support/cluster-model.ts'
import { SimulatedNode } from './support/cluster-nodes.ts'
import { logFromSeed, readOnly } from './support/log-from-seed.ts'
import { SharedMemoryDocuments } from './support/memory-log.ts'
import { seededRandom } from './support/random.ts'

const records = 600
const seed = 7

interface Life {
  readonly from: number
  /** The last log position that it reported. */
  readonly at: number
  readonly isDone: boolean
}

/** A node in a separate process, which kills itself some records after its start. */
async function live(dataDir: string, killAfter: number): Promise<Life> {
  const script = join(import.meta.dirname, 'support/cluster-child.ts')
  const child = spawn(process.execPath, [script, dataDir, ...[seed, records, killAfter].map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = Promise.withResolvers<void>()
  child.once('close', () => ended.resolve())
  let said = ''
  const numberOf = (word: string): number => Number(said.match(new RegExp(`.*^${word} (\\d+)$`, 'ms'))?.[1])
  child.stdout.on('data', (text: Buffer) => {
    said += text
  })
  await ended.promise
  const isDone = said.endsWith('done\n')
  return { from: numberOf('from'), at: numberOf('at'), isDone }
}

describe('a node of a cluster that is killed', () => {
  it('has applied every record once when it reaches the end of the log', async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-cluster-kill-'))
    const random = seededRandom(seed)
    try {
      const lives: Life[] = []
      while (lives.at(-1)?.isDone !== true) {
        const killAfter = lives.length < 3 ? Math.floor(random() * 150) : Number.POSITIVE_INFINITY
        lives.push(await live(dataDir, killAfter))
      }
      t.diagnostic(lives.map(({ from, at }) => `${from}..${at}`).join(' '))
      assert.ok(lives.length > 2, 'the node was killed before the end')
      const log = await logFromSeed(seed, records)
      const model = await ClusterModel.read(log)
      await using node = new SimulatedNode({
        name: 'reader',
        log: readOnly(log),
        documents: new SharedMemoryDocuments(),
        dataDir,
        nowUs: () => 0,
      })
      const { main } = await node.start()
      await node.up.node.caughtUp()
      assert.deepEqual(Buffer.from(main.replica.digest), Buffer.from(model.digestOf(PartitionSet.all())))
      const include = { distance: false, payload: true, version: true, vector: false }
      const { points } = await main.list({ limit: 10_000, include })
      assert.deepEqual(
        new Map(points.map(({ id, version, payload }) => [id, [version, payload?.content]])),
        new Map([...model.visible].map(([id, { version, content }]) => [id, [version, content]])),
      )
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})
