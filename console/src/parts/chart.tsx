import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { formatTime } from '../lib/format.ts'
import { isDark } from '../state/theme.ts'

export interface Series {
  readonly label: string
  /** The CSS variable of a theme colour, such as `--series-1`. */
  readonly colour: string
  readonly values: readonly (number | null)[]
}

/** A line chart over time. The page also shows the numbers as text, so for screen readers the chart is one image. */
export function Chart(props: {
  readonly label: string
  readonly timesS: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  /** The longest time span to show. */
  readonly spanS: number
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const dark = isDark.value
  // A plot keeps the theme colours that it was created with, so a change of theme needs a new plot.
  useEffect(() => {
    const element = place.current!
    const made = new uPlot(optionsOf(props, element), dataOf(props), element)
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [dark])
  useEffect(() => {
    const now = props.timesS.at(-1) ?? Date.now() / 1000
    plot.current?.setData(dataOf(props), false)
    const spanS = Math.min(props.spanS, Math.max(leastSpanS, now - (props.timesS[0] ?? now)))
    plot.current?.setScale('x', { min: now - spanS, max: now })
  }, [props.timesS])
  return <div ref={place} class="chart" role="img" aria-label={props.label} />
}

const heightPx = 168
/** Keeps the first seconds from filling the whole width. */
const leastSpanS = 60

function dataOf({
  timesS,
  series,
}: {
  readonly timesS: readonly number[]
  readonly series: readonly Series[]
}): uPlot.AlignedData {
  return [[...timesS], ...series.map(({ values }) => [...values])]
}

function optionsOf(
  props: { readonly series: readonly Series[]; readonly format: (value: number) => string },
  element: HTMLElement,
): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string): string => style.getPropertyValue(name).trim()
  const axis: uPlot.Axis = {
    stroke: colour('--muted'),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: element.clientWidth,
    height: heightPx,
    padding: [10, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: true }, y: { range: (_plot, _min, max) => [0, niceMax(max)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 90,
        size: 28,
        gap: 8,
        values: (_plot, times, _axis, _space, stepS) =>
          times.map((timeS) => formatTime(new Date(timeS * 1000), stepS < 60)),
      },
      { ...axis, size: 58, space: 40, values: (_plot, values) => values.map((value) => props.format(value)) },
    ],
    series: [
      {},
      ...props.series.map(({ label, colour: name }, index) => ({
        label,
        stroke: colour(name),
        width: 1.75,
        spanGaps: false,
        points: { show: false },
        ...(index === 0 ? { fill: colour('--series-fill') } : {}),
      })),
    ],
  }
}

/** Keeps the line below the top edge, and gives an idle server an axis. */
function niceMax(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.15
}
