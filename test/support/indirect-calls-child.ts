/** Calls WebAssembly that calls functions of a table, until V8 optimizes it, with the flags with which kernels are compiled. */
import { v8Flags, withV8Flags } from '../../src/base/runtime.ts'

// sum(n): for (i = 0; i < n; i++) s += table[i & 1](i), which are i ^ 3 and i ^ 5.
const bytes = Buffer.from(
  'AGFzbQEAAAABBgFgAX8BfwMEAwAAAAQFAXABAgIHBwEDc3VtAAIJCAEAQQALAgABCjYDBwAgAEEDcwsHACAAQQVzCyQBAn8DQCACIAEgAUEBcREAAGohAiABQQFqIgEgAEgNAAsgAgs=',
  'base64',
)
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes))
const sum = exports.sum as (count: number) => number
if (sum(2) !== 7) throw new Error(`${sum(2)} is not 7`)
withV8Flags(v8Flags().optimizeWasm, () => {
  for (let call = 0; call < 500; call += 1) sum(100_000)
})
