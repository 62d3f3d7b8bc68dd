import type { CurveName } from '../options.ts'
import { churn } from './churn.ts'
import type { Curve } from './curve.ts'
import { metricCurve } from './distance-metrics.ts'
import { growth } from './growth.ts'
import { leverCurve } from './levers.ts'
import { scale } from './scale.ts'
import { threadCurve } from './threads.ts'

export const curves: Readonly<Record<CurveName, Curve>> = {
  growth,
  threads: threadCurve,
  churn,
  metrics: metricCurve,
  levers: leverCurve,
  scale,
}
