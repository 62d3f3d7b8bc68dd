import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { seededRandom } from '../support/random.ts'
import { losses, PowerLoss } from './power-loss.ts'
import { canTrace, noStrace } from './strace.ts'

/** The short form, a sample; `npm run test:power-loss` goes through every moment and every loss. */

const seed = 20_260_602
const images = 18
const firstStartImages = 11

describe('a machine that loses power', { skip: !canTrace() && noStrace }, () => {
  let power: PowerLoss
  before(async () => {
    power = await PowerLoss.record(seed)
  })
  after(() => power[Symbol.asyncDispose]())

  it('has everything that was acknowledged, whatever happened to unsynced changes', async () => {
    assert.ok(power.renames >= 3, `${power.renames}`)
    const random = seededRandom(seed)
    for (let image = 0; image < images; image += 1) {
      const index = Math.floor(((image + random()) / images) * power.momentCount)
      await power.cut(index, losses[image % losses.length]!, seed + image)
    }
    assert.ok(power.summary.compared > 1000, JSON.stringify(power.summary))
  })

  it('can be started again whenever its first start ended, even before its database had a name', async () => {
    assert.ok(power.firstStartCount > 50, `${power.firstStartCount}`)
    for (let image = 0; image < firstStartImages; image += 1) {
      const index = Math.floor((image / firstStartImages) * power.firstStartCount)
      await power.cut(index, losses[image % losses.length]!, seed + image)
    }
  })

  it('is found to lose acknowledged points if its disk ignores syncs', async () => {
    const lost = power.onLyingDisk().cut(power.momentCount - 1, { kind: 'dropped' }, seed)
    await assert.rejects(lost, /power lost at moment .* the acknowledged point .* is lost/)
  })
})
