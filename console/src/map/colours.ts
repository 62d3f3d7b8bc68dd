import type { JsonValue } from '../api/types.ts'
import { plainText } from '../lib/filters.ts'

/** Colours that are easy to tell apart on light and dark backgrounds. */
const palette = [
  '#2a9d8f',
  '#e76f51',
  '#5b7bd5',
  '#e0a526',
  '#a05195',
  '#6aa84f',
  '#d45087',
  '#3fa7c9',
  '#9c755f',
  '#7c6fd0',
] as const
const other = '#8d9794'
const low = [67, 97, 190] as const
const high = [240, 170, 40] as const

export interface LegendEntry {
  readonly colour: string
  readonly text: string
  readonly count: number
}

/** The colours of points by one attribute, with their legend. */
export interface Colouring {
  /** Red, green and blue of each point. */
  readonly rgb: Uint8Array
  readonly legend: readonly LegendEntry[]
  /** By point, the index of its value in the legend; -1 for rare values, and for all points on a numeric scale. */
  readonly groupOf: Int16Array
}

/**
 * Many different numbers become a scale. Otherwise each frequent value gets a colour, and all rare values share one.
 */
export function colouringOf(values: readonly (JsonValue | undefined)[]): Colouring {
  const numbers = values.filter((value) => typeof value === 'number')
  const isScale = numbers.length > 0 && new Set(numbers).size > palette.length
  return isScale ? scaleOf(values, numbers) : categoriesOf(values)
}

function categoriesOf(values: readonly (JsonValue | undefined)[]): Colouring {
  const texts = values.map((value) => (value === undefined ? undefined : plainText(value)))
  const counts = new Map<string | undefined, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  const frequent = [...counts]
    .filter(([text]) => text !== undefined)
    .sort(([, a], [, b]) => b - a)
    .slice(0, palette.length)
  const colourOf = new Map(frequent.map(([text], index) => [text, palette[index]!]))
  const rest = texts.filter((text) => !colourOf.has(text)).length
  const legend = frequent.map(([text, count], index) => ({ colour: palette[index]!, text: text!, count }))
  return {
    rgb: bytesOf(texts, (text) => bytesOfHex(colourOf.get(text) ?? other)),
    legend: rest === 0 ? legend : [...legend, { colour: other, text: 'other', count: rest }],
    groupOf: groupsOf(texts, legend),
  }
}

function groupsOf(texts: readonly (string | undefined)[], legend: readonly LegendEntry[]): Int16Array {
  const numbers = new Map<string | undefined, number>(legend.map(({ text }, number) => [text, number]))
  return Int16Array.from(texts, (text) => numbers.get(text) ?? -1)
}

function scaleOf(values: readonly (JsonValue | undefined)[], numbers: readonly number[]): Colouring {
  const least = numbers.reduce((a, b) => Math.min(a, b))
  const most = numbers.reduce((a, b) => Math.max(a, b))
  const mix = (share: number): readonly number[] =>
    low.map((from, index) => from + (high[index]! - from) * share)
  const hex = (share: number): string => `rgb(${mix(share).map(Math.round).join(' ')})`
  return {
    rgb: bytesOf(values, (value) =>
      typeof value === 'number' ? mix((value - least) / (most - least)) : bytesOfHex(other),
    ),
    groupOf: new Int16Array(values.length).fill(-1),
    legend: [
      { colour: hex(0), text: String(least), count: 0 },
      { colour: hex(0.5), text: String(Number(((least + most) / 2).toPrecision(4))), count: 0 },
      { colour: hex(1), text: String(most), count: 0 },
    ],
  }
}

function bytesOf<T>(values: readonly T[], colour: (value: T) => readonly number[]): Uint8Array {
  const bytes = new Uint8Array(values.length * 3)
  for (const [index, value] of values.entries()) bytes.set(colour(value), index * 3)
  return bytes
}

function bytesOfHex(hex: string): readonly number[] {
  return [1, 3, 5].map((start) => Number.parseInt(hex.slice(start, start + 2), 16))
}
