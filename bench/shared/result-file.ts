import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Machine } from './machine.ts'
import type { CommonOptions } from './options.ts'

/** Writes the results of a run as JSON, with the machine and the settings. */
export function writeResult(options: CommonOptions, machine: Machine, result: object): void {
  // Results are published, so they must not contain folders of the user who ran the benchmark.
  const { cache, wordnet, output, ...settings } = options
  mkdirSync(dirname(output), { recursive: true })
  const all = { time: new Date().toISOString(), machine, settings, ...result }
  writeFileSync(output, `${JSON.stringify(all, undefined, 1)}\n`)
  console.error(`Written to ${output}`)
}
