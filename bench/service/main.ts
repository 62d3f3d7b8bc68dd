/**
 * `npm run bench:service` measures the throughput of the service through each transport. It compares the service with
 * an echo over the same transports, with the index alone and with Chroma's server. The load comes from other processes,
 * over the loopback interface, on the same cores. For the method and its fairness, see docs/decisions/benchmarks.md.
 */
import type { SetName } from '../shared/data/data-set.ts'
import { describeMachine } from '../shared/machine.ts'
import { writeResult } from '../shared/result-file.ts'
import { table } from '../shared/table.ts'
import type { Verdict } from '../shared/verdict.ts'
import { prepareData } from './load/load-data.ts'
import { type Options, readOptions, usage } from './options.ts'
import { reportOf, summaryOf } from './report/report.ts'
import { verdictsOf } from './report/verdicts.ts'
import { coresCurve, coresHeadings, coresTitle } from './run/cores.ts'
import { hybridCurve, hybridHeadings, hybridTitle } from './run/hybrid.ts'
import { securityCurve, securityHeadings, securityTitle } from './run/security.ts'
import type { SetResult } from './run/set-result.ts'
import { SetRun } from './run/set-run.ts'

const fairness =
  'Servers, the index and the load generators share all cores of this machine. The targets take turns, one at a time.'

const draws = { cores: drawCores, security: drawSecurity, hybrid: drawHybrid }

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  const machine = describeMachine()
  if (options.curve !== undefined) {
    writeResult(options, machine, await draws[options.curve](options))
    return
  }
  const results: (SetResult & { readonly verdicts: readonly Verdict[] })[] = []
  for (const name of options.sets) {
    const result = await runSet(name, options)
    const verdicts = verdictsOf(result)
    results.push({ ...result, verdicts })
    console.log(`\n${reportOf(result, verdicts)}\n`)
  }
  console.log(`${fairness}\n`)
  const sections = Object.fromEntries(results.map((each) => [`bench:service ${each.set}`, summaryOf(each)]))
  writeResult(options, machine, { results, sections })
}

async function drawCores(options: Options): Promise<object> {
  const results: object[] = []
  const drawn: string[] = []
  for (const name of options.sets) {
    console.error(`${name}: data and exact answers`)
    const data = await prepareData(name, options)
    const rows: (readonly string[])[] = []
    await coresCurve(data, options, (row) => {
      rows.push(row)
      console.error(`  ${row.join('  ')}`)
    })
    drawn.push(`${data.set.description}\n\n${table(coresHeadings, rows)}`)
    console.log(`\n## ${coresTitle}\n\n${drawn.at(-1)}\n`)
    results.push({ set: name, description: data.set.description, headings: coresHeadings, rows })
  }
  return { results, sections: { 'bench:service --curve cores': drawn.join('\n\n') } }
}

async function drawSecurity({ rows = 20_000, rounds }: Options): Promise<object> {
  return await draw('security', securityTitle, securityHeadings, (onRow) =>
    securityCurve({ rows, rounds: 100 * rounds }, onRow),
  )
}

async function drawHybrid({ wordnet, rounds }: Options): Promise<object> {
  return await draw('hybrid', hybridTitle, hybridHeadings, (onRow) =>
    hybridCurve(wordnet, 30 * rounds, onRow),
  )
}

/** Measures the lines of a table, and prints it. */
async function draw(
  curve: string,
  title: string,
  headings: readonly string[],
  measure: (onRow: (line: readonly string[]) => void) => Promise<void>,
): Promise<object> {
  const lines: (readonly string[])[] = []
  await measure((line) => {
    lines.push(line)
    console.error(`  ${line.join('  ')}`)
  })
  const drawn = table(headings, lines)
  console.log(`\n## ${title}\n\n${drawn}\n`)
  return { headings, lines, sections: { [`bench:service --curve ${curve}`]: drawn } }
}

async function runSet(name: SetName, options: Options): Promise<SetResult> {
  console.error(`${name}: data and exact answers`)
  const data = await prepareData(name, options)
  await using run = new SetRun(data, options)
  return await run.measure()
}
