import { parseArgs } from 'node:util'
import { longBounds } from './bounds.ts'
import type { Sample } from './flatness.ts'
import { soak } from './soak.ts'

/**
 * The long form of the soak test: `npm run test:soak -- [--requests n] [--points n] [--seed n]`. Shows the resources of
 * the service during the run and ends with their growth, with exit code 1 if that is more than noise.
 */
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '500000' },
    points: { type: 'string', default: '40000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
  },
})
const seed = Number(values.seed)
console.log(`soak: seed ${seed}, ${values.requests} requests, about ${values.points} points`)
const started = performance.now()
const { growths, tally } = await soak({
  seed,
  requests: Number(values.requests),
  points: Number(values.points),
  samples: 30,
  bounds: longBounds,
  onSample: (sample) => console.log(lineOf(sample)),
})
for (const [request, count] of [...tally].sort()) console.log(`soak: ${request}: ${count}`)
for (const { what, growth, perRequest, bound, isFlat } of growths) {
  const figures = `${growth.toFixed(0)} over the second half, ${perRequest.toFixed(3)} a request`
  console.log(`soak: ${what}: ${figures}; at most ${bound.toFixed(0)}: ${isFlat ? 'flat' : 'GROWS'}`)
  if (!isFlat) process.exitCode = 1
}
console.log(`soak: ${Math.round((performance.now() - started) / 1000)} s`)

function lineOf({ requests, heapBytes, externalBytes, rssBytes, files, resources }: Sample): string {
  const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1)
  const memory = `heap ${mebibytes(heapBytes)}, external ${mebibytes(externalBytes)}, RSS ${mebibytes(rssBytes)} MiB`
  return `soak: ${requests} requests: ${memory}, ${files} files, ${resources} resources`
}
