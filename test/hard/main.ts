/**
 * The battery of hard sets. It checks that the service answers, keeps its recall and stops on request, whatever is
 * stored and deleted. `npm run test:recall -- --battery`; `--sets`, `--points`, `--dimension`, `--queries`, `--rounds`
 * and `--seed` change the run, `--json FILE` writes all figures. Ends with code 1 if anything misses its bar.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { runSet, type SetResult, usualStopMs } from './battery.ts'
import { costTable, recallTable } from './report.ts'
import { hardSets } from './sets.ts'

const { values } = parseArgs({
  options: {
    battery: { type: 'boolean' },
    sets: { type: 'string', default: Object.keys(hardSets).join(',') },
    points: { type: 'string', default: '20000' },
    dimension: { type: 'string' },
    queries: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '20260601' },
    json: { type: 'string' },
  },
})
const options = {
  points: Number(values.points),
  dimension: values.dimension === undefined ? undefined : Number(values.dimension),
  queries: Number(values.queries),
  rounds: Number(values.rounds),
  seed: Number(values.seed),
  share: 0.9,
  hangMs: 60_000,
  slowMs: 5_000,
  settleMs: 120_000,
  stopMs: usualStopMs,
}

console.log(
  `${options.points} points, ${options.queries} queries, ${options.rounds} rounds, seed ${options.seed}`,
)
const results: SetResult[] = []
for (const name of values.sets.split(',')) {
  const started = performance.now()
  const result = await runSet(name, options)
  results.push(result)
  const took = Math.round((performance.now() - started) / 1000)
  console.log(`\n${name}: ${result.points} points x ${result.dimension}, ${took} s`)
  for (const fault of result.faults) console.log(`  FAULT: ${fault}`)
  for (const complaint of result.complaints) console.log(`  log: ${complaint}`)
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify({ options, results }, null, 1))
}
console.log(`\n${recallTable(results)}\n\n${costTable(results)}`)
if (results.some(({ faults }) => faults.length > 0)) process.exitCode = 1
