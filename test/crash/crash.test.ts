import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { childThreads } from '../support/service.ts'
import { Campaign, type Death, type Size } from './campaign.ts'
import { canTrace } from './strace.ts'

/** The short form; `npm run test:crash` runs for as long as requested. */

/** Calls of the thread that writes, whichever threads serve. */
const atCalls: readonly Death[] =
  canTrace() && childThreads === '1'
    ? [
        { kind: 'at a call', call: 'fdatasync', side: 'before', nth: 9 },
        { kind: 'at a call', call: 'pwrite64', side: 'after', nth: 12 },
      ]
    : []

describe('a service that is killed and started again', { concurrency: true }, () => {
  const seed = 20_260_601

  it('has every acknowledged write and nothing else', async () => {
    await survives(seed, 'scanned', [{ kind: 'after changes', changes: 20 }, ...atCalls])
  })

  it('finds the results of an exact scan through an index whose checkpoint was interrupted', async () => {
    await survives(seed, 'indexed', [{ kind: 'in a checkpoint', afterMs: 1 }])
  })
})

async function survives(seed: number, size: Size, deaths: readonly Death[]): Promise<void> {
  const rounds: string[] = []
  await using campaign = await Campaign.create({
    seed,
    size,
    hasSmallGraphs: size === 'indexed',
    report: (line) => rounds.push(line),
  })
  try {
    for (const death of deaths) await campaign.round(death)
    await campaign.finish()
  } catch (error) {
    throw new Error(`seed ${seed}, ${size}, after: ${rounds.join('; ')}`, { cause: error })
  }
  const { acknowledged, changes, cleanStops } = campaign.summary
  assert.ok(campaign.killCount >= deaths.length, JSON.stringify(campaign.summary))
  assert.ok(acknowledged > 0)
  assert.ok(changes > 0)
  assert.equal(cleanStops, 2)
}
