import { readFileSync } from 'node:fs'
import { type EvaluatedPoints, type Relevance, settingText } from '../base/relevance.ts'
import type { EvaluationQuery, Judgement } from '../client/client.ts'
import { type Environment, UsageError } from './arguments.ts'
import { type ConnectionOptions, withClient } from './connection.ts'
import { boostsIn, filterIn } from './points.ts'

export interface EvaluateOptions
  extends ConnectionOptions,
    Pick<EvaluationQuery, 'metric' | 'balance' | 'ef' | 'diversity' | 'rerank' | 'sweep'> {
  readonly k: number
  readonly filter?: string
  readonly boost?: readonly string[]
  readonly json?: boolean
}

/** Measures how well searches agree with the judgements of a file, and prints figures and the queries that got worse. */
export async function evaluate(
  file: string,
  options: EvaluateOptions,
  environment: Environment,
): Promise<void> {
  const judgements = judgementsIn(file)
  const { k, metric, balance, ef, diversity, rerank, sweep } = options
  const boost = options.boost && boostsIn(options.boost)
  const settings = { k, metric, balance, ef, diversity, rerank, sweep, boost }
  const filter = filterIn(options)
  await withClient(options, environment, async (client) => {
    const answer = await client.evaluate({ ...settings, judgements, filter })
    if (options.json) return console.log(JSON.stringify(answer))
    print(answer, judgements, k)
  })
}

function judgementsIn(file: string): readonly Judgement[] {
  const lines = readFileSync(file === '-' ? 0 : file, 'utf8').split('\n')
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return []
    try {
      return [JSON.parse(line) as Judgement]
    } catch (error) {
      throw new UsageError(`${file}:${index + 1} is not JSON: ${(error as Error).message}`)
    }
  })
}

function print(answer: EvaluatedPoints, judgements: readonly Judgement[], k: number): void {
  const { best, curve, missing } = answer
  if (missing > 0) console.error(`${missing} points of the judgements are not stored`)
  console.log(`${judgements.length} queries, the first ${k} results of each, 95 % intervals`)
  console.log(`ndcg    ${figure(answer, 'ndcg')}`)
  console.log(`recall  ${figure(answer, 'recall')}`)
  console.log(`mrr     ${figure(answer, 'mrr')}`)
  if (best === undefined) return
  console.log('\n  ndcg  recall     mrr')
  for (const setting of curve) {
    const figures = [setting.ndcg, setting.recall, setting.mrr].map((each) => each.toFixed(4))
    console.log(`${figures.join('  ')}  ${settingText(setting)}`)
  }
  console.log(`\nbest: ${settingText(best)}`)
  console.log(`ndcg    ${figure(best, 'ndcg')}`)
  const changes = judgements.map((judgement, index) => ({
    change: best.queries[index]!.ndcg - answer.queries[index]!.ndcg,
    name: judgement.text ?? (judgement.words as string | undefined) ?? `judgement ${index + 1}`,
  }))
  const worse = changes.filter(({ change }) => change < 0).sort((a, b) => a.change - b.change)
  const better = changes.filter(({ change }) => change > 0).length
  console.log(`\n${better} queries are better with it, ${worse.length} worse${worse.length > 0 ? ':' : ''}`)
  for (const { change, name } of worse.slice(0, shownMax)) {
    console.log(`${change.toFixed(4)}  ${name.replace(/\s+/g, ' ')}`)
  }
}

/** The worst of the queries that got worse. */
const shownMax = 10

function figure(
  { low, high, ...means }: Relevance & { readonly low: Relevance; readonly high: Relevance },
  name: keyof Relevance,
): string {
  return `${means[name].toFixed(4)} (${low[name].toFixed(4)} to ${high[name].toFixed(4)})`
}
