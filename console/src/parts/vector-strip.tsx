import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { isDark } from '../state/theme.ts'

const heightPx = 56

/** A vector as bars around zero: enough to tell two vectors apart, or to spot one that is all zeros. */
export function VectorStrip({ vector }: { readonly vector: readonly number[] }): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null)
  // Redrawn in the new colours when the theme changes.
  const dark = isDark.value
  useEffect(() => {
    const canvas = ref.current!
    const draw = (): void => drawStrip(canvas, vector)
    const observer = new ResizeObserver(draw)
    observer.observe(canvas)
    return () => observer.disconnect()
  }, [vector, dark])
  const text = `A bar chart of the ${vector.length} numbers, from ${least(vector)} to ${most(vector)}`
  return <canvas ref={ref} class="vector-strip" height={heightPx} role="img" aria-label={text} />
}

function least(vector: readonly number[]): number {
  return vector.reduce((low, value) => Math.min(low, value), Number.POSITIVE_INFINITY)
}

function most(vector: readonly number[]): number {
  return vector.reduce((high, value) => Math.max(high, value), Number.NEGATIVE_INFINITY)
}

function drawStrip(canvas: HTMLCanvasElement, vector: readonly number[]): void {
  const scale = devicePixelRatio
  const width = Math.max(1, Math.round(canvas.clientWidth * scale))
  const height = Math.round(heightPx * scale)
  if (canvas.width !== width) canvas.width = width
  if (canvas.height !== height) canvas.height = height
  const context = canvas.getContext('2d')!
  context.clearRect(0, 0, width, height)
  const style = getComputedStyle(canvas)
  const largest = Math.max(Math.abs(least(vector)), Math.abs(most(vector)), 1e-30)
  const middle = height / 2
  const step = width / vector.length
  const bar = Math.max(1, step - (step > 3 * scale ? scale : 0))
  for (const [index, value] of vector.entries()) {
    const length = (value / largest) * (middle - 1)
    context.fillStyle = style.getPropertyValue(value < 0 ? '--series-2' : '--series-1')
    context.fillRect(index * step, length < 0 ? middle : middle - length, bar, Math.max(1, Math.abs(length)))
  }
}
