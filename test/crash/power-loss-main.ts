/** The long power-loss test: see `usage`. */
import { parseArgs } from 'node:util'
import { seededRandom } from '../support/random.ts'
import { losses, PowerLoss } from './power-loss.ts'
import { canTrace, noStrace } from './strace.ts'

const usage = `npm run test:power-loss [-- options]
  --images <n>  disks to write and open; by default every moment with every kind of loss
  --seed <n>    runs one again`
const { values } = parseArgs({
  options: { images: { type: 'string' }, seed: { type: 'string' }, help: { type: 'boolean' } },
})
if (values.help) {
  console.log(usage)
  process.exit()
}
const seed = Number(values.seed ?? Date.now() % 1_000_000)
if (!canTrace()) throw new Error(`power loss cannot be simulated: ${noStrace}`)
console.log(`seed ${seed}`)
const random = seededRandom(seed)
await using power = await PowerLoss.record(seed)
const images = Number(values.images ?? power.momentCount * losses.length)
let failed = 0
for (let image = 0; image < images; image += 1) {
  // With enough images for all moments and losses, go through them in order; otherwise choose at random.
  const isSweep = images >= power.momentCount * losses.length
  const index = isSweep ? image % power.momentCount : Math.floor(random() * power.momentCount)
  const loss = isSweep
    ? losses[Math.floor(image / power.momentCount) % losses.length]!
    : losses[image % losses.length]!
  try {
    await power.cut(index, loss, seed + image)
  } catch (error) {
    failed += 1
    console.error(`FAILED: ${(error as Error).message}`)
  }
  if (image % 200 === 199) console.log(`  ${image + 1} of ${images} images, ${failed} failed`)
}
console.log(`${failed === 0 ? 'nothing lost' : `${failed} images FAILED`}: ${JSON.stringify(power.summary)}`)
process.exitCode = failed === 0 ? 0 : 1
