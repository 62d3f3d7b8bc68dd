import { prepareSet } from '../../shared/data/data-set.ts'
import { median } from '../../shared/median.ts'
import { shown } from '../../shared/table.ts'
import { levers } from '../contenders/vicinal-levers.ts'
import { type ContenderResult, compareOn } from '../run/compare.ts'
import { recallTargets } from '../run/measure.ts'
import type { Curve } from './curve.ts'

/** The gain of each search optimization. Each row adds one optimization, and each round measures all rows. */
export const leverCurve: Curve = {
  title: 'Levers: one more in every row, built on all threads, searched on one',
  headings: [
    'set',
    'lever',
    'build, s',
    'recall, ef 128 or less',
    'q/s at 0.95',
    'q/s at 0.99',
    'gain at 0.95',
    'gain at 0.99',
  ],
  async rows(options, onRow) {
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      const { contenders } = await compareOn(set, {
        ...options,
        contenders: levers.map((lever) => lever.name),
        threads: [1],
        buildThreads: options.buildThreads.slice(-1),
        reuse: false,
      })
      for (const [place, result] of contenders.entries()) {
        const before = contenders[Math.max(0, place - 1)]!
        onRow([set.name, levers[place]!.title, ...figures(result, before)])
      }
    }
  },
}

function figures(result: ContenderResult, before: ContenderResult): string[] {
  if (result.fault !== undefined) return [result.fault]
  const usual = result.searches[0]?.sweep.find(({ ef }) => ef >= 128) ?? result.searches[0]?.sweep.at(-1)
  return [
    shown(result.builds.at(-1)?.seconds, 1),
    shown(usual?.recall, 4),
    ...shownTargets.map((target) => shown(median(speeds(result, target)))),
    ...shownTargets.map((target) => shown(gain(result, before, target), 2)),
  ]
}

type Target = (typeof recallTargets)[number]

const shownTargets = [0.95, 0.99] as const

/** The median of the ratios within each round, because a disturbance affects both sides of a ratio. */
function gain(result: ContenderResult, before: ContenderResult, target: Target): number | undefined {
  const earlier = speeds(before, target)
  return median(
    speeds(result, target).map((speed, round) => {
      const other = earlier[round]
      return speed === undefined || other === undefined ? undefined : speed / other
    }),
  )
}

function speeds(result: ContenderResult, target: Target): (number | undefined)[] {
  const place = recallTargets.indexOf(target)
  return (result.searches[0]?.rounds ?? []).map((round) => round.speeds[place] ?? undefined)
}
