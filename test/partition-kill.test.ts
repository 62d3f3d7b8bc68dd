import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { PartitionSet } from '../src/base/partitions.ts'
import { ClusterModel } from './support/cluster-model.ts'
import { logFromSeed, readOnly } from './support/log-from-seed.ts'
import { MovingPair } from './support/moving-pair.ts'
import { assertHasOnly } from './support/partition-contents.ts'
import { temporaryDirectory } from './support/process.ts'
import { programFile } from './support/programs.ts'
import { fixedSeeds, seededRandom } from './support/random.ts'

const records = 900

/** Runs two nodes in a separate process, which is killed before one of its steps on the disk. Returns its output. */
async function live(directory: string, seed: number, life: number, before: number): Promise<string> {
  const countPath = join(directory, 'steps')
  rmSync(countPath, { force: true })
  const script = programFile('test/support/moving-child.ts')
  const preload = new URL('support/disk-steps-preload.ts', import.meta.url)
  preload.search = new URLSearchParams({
    before: String(before),
    count: countPath,
    signal: 'SIGKILL',
  }).toString()
  const child = spawn(
    process.execPath,
    ['--import', preload.href, script, directory, ...[seed, records, life].map(String), countPath],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const ended = Promise.withResolvers<number | null>()
  child.once('close', (code) => ended.resolve(code))
  let said = ''
  child.stdout.on('data', (text: Buffer) => {
    said += text
  })
  const code = await ended.promise
  assert.ok(code === null || said.endsWith('done\n'), `it exited with ${code} without being killed`)
  return said
}

describe('a node that is killed while it takes and drops partitions', () => {
  for (const seed of fixedSeeds(1, 3)) {
    it(`has the partitions that it reports, to the last bit (seed ${seed})`, async (t) => {
      await using directory = await temporaryDirectory()
      for (const name of ['giver', 'taker']) mkdirSync(join(directory.path, name))
      const random = seededRandom(seed)
      const lives: string[] = []
      while (!lives.at(-1)?.endsWith('done\n')) {
        const before = lives.length < 4 ? 1 + Math.floor(random() ** 2 * 250) : 1_000_000
        lives.push(await live(directory.path, seed, lives.length, before))
      }
      for (const [index, said] of lives.entries())
        t.diagnostic(`${index}: ${said.trim().split('\n').join(', ')}`)
      assert.ok(lives.length > 3, 'the process was killed before the end')
      const log = await logFromSeed(seed, records)
      const pair = new MovingPair({ directory: directory.path, log: readOnly(log) })
      const giver = await pair.giver.start()
      const taker = await pair.taker.start()
      await Promise.all([giver.node.caughtUp(), taker.node.caughtUp()])
      // Resolves when the remains of other partitions are removed.
      await taker.node.dropPartitions(new PartitionSet(), new AbortController().signal)
      const model = await ClusterModel.read(log)
      assert.deepEqual(
        Buffer.from(giver.main.replica.digest),
        Buffer.from(model.digestOf(PartitionSet.all())),
      )
      assert.ok(taker.node.held.size > 0)
      await assertHasOnly(taker.main, taker.node.held, giver.main)
      await taker.stop()
      await giver.stop()
    })
  }
})
