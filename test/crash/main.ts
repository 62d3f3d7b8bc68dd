/** The long crash test: `npm run test:crash -- --kills 200`, or `--seconds 300`; `--seed` repeats a run. */
import { parseArgs } from 'node:util'
import { Campaign, type Size } from './campaign.ts'
import { canTrace, noStrace } from './strace.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string' },
    seconds: { type: 'string' },
    seed: { type: 'string' },
    size: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const sizes: readonly Size[] = values.size === undefined ? ['scanned', 'indexed'] : [values.size as Size]
const killsMax = Number(values.kills ?? (values.seconds === undefined ? 50 : Number.POSITIVE_INFINITY))
const secondsMax = Number(values.seconds ?? Number.POSITIVE_INFINITY)
if (Number.isNaN(killsMax + secondsMax + seed)) throw new Error('--kills, --seconds and --seed take numbers')

console.log(`seed ${seed}${canTrace() ? '' : `; no kills at single system calls: ${noStrace}`}`)
for (const [index, size] of sizes.entries()) await run(size, index)

async function run(size: Size, index: number): Promise<void> {
  const report = values.verbose ? (line: string) => console.log(`  ${line}`) : undefined
  await using campaign = await Campaign.create({ seed: seed + index, size, ...(report && { report }) })
  const started = performance.now()
  const elapsed = (): number => (performance.now() - started) / 1000
  let rounds = 0
  const isOver = (): boolean =>
    campaign.killCount >= killsMax / sizes.length || elapsed() >= secondsMax / sizes.length
  try {
    for (; !isOver(); rounds += 1) {
      await campaign.round()
      if (rounds % 10 === 9) console.log(`  ${size}: ${campaign.killCount} kills, ${elapsed().toFixed(0)} s`)
    }
    await campaign.finish()
  } catch (error) {
    console.error(`FAILED after ${campaign.killCount} kills, ${size} collection, seed ${seed}`)
    console.error(campaign.lastLife)
    throw error
  }
  const { kills, ...figures } = campaign.summary
  console.log(
    `${size} collection: ${campaign.killCount} kills survived in ${elapsed().toFixed(0)} s, nothing lost`,
  )
  for (const [what, count] of Object.entries(kills)) console.log(`  ${String(count).padStart(4)} ${what}`)
  console.log(`  ${JSON.stringify(figures)}`)
}
