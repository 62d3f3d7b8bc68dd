const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

export function formatCount(value: number): string {
  return whole.format(value)
}

/** A short form of a number for little space: 1.2M. */
export function formatCompact(value: number): string {
  return value < 100_000 ? whole.format(value) : compact.format(value)
}

/** A rate. Only rates below 10 have a fraction. */
export function formatRate(value: number): string {
  if (value > 0 && value < 10) return value.toFixed(1)
  return formatCompact(value)
}

const byteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

export function formatBytes(bytes: number): string {
  let unit = 0
  let value = bytes
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024
    unit++
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1
  return `${value.toFixed(digits)} ${byteUnits[unit]}`
}

export function formatMs(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`
  if (ms < 100) return `${ms.toFixed(1)} ms`
  if (ms < 10_000) return `${whole.format(ms)} ms`
  return `${(ms / 1000).toFixed(1)} s`
}

/** Four significant digits: enough to compare results by eye. */
export function formatDistance(distance: number): string {
  if (Number.isInteger(distance) && distance < 1e6) return whole.format(distance)
  if (distance < 1e-4 || distance >= 1e6) return distance.toExponential(2)
  return distance.toPrecision(4)
}

/** One clock of 24 hours everywhere, whatever the language of the browser prefers. */
const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const

export function formatTime(date: Date, withSeconds = true): string {
  const { second: _second, ...short } = clock
  return date.toLocaleTimeString([], withSeconds ? clock : short)
}

export function formatMoment(date: Date): string {
  return date.toLocaleString([], { year: 'numeric', month: 'short', day: 'numeric', ...clock })
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** The first group of a UUID: enough to recognize a point in a list. */
export function shortId(id: string): string {
  return id.slice(0, 8)
}
