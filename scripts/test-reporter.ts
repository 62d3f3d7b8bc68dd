/** A reporter of Node's test runner that counts what the tests of a file come to, instead of printing it. */
import { EventEmitter, once } from 'node:events'
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

export interface TestFailure {
  /** The names of the suites and of the test. */
  readonly name: string
  readonly error: string
}

export interface TestCounts {
  readonly passed: number
  readonly skipped: number
  readonly failures: readonly TestFailure[]
}

let counts = { passed: 0, skipped: 0, failures: [] as TestFailure[] }
const ends = new EventEmitter()

/** Resolves when the outermost suite has ended. */
export async function countsOfFile(): Promise<TestCounts> {
  await once(ends, 'file')
  const taken = counts
  counts = { passed: 0, skipped: 0, failures: [] }
  return taken
}

/** Counts an error that no test awaited as a failure of the file. */
export function addFailure(error: unknown): void {
  counts.failures.push({ name: 'an error that no test awaits', error: inspect(error, { depth: 6 }) })
}

export default async function* countTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []
  for await (const { type, data } of events) {
    if (type === 'test:start') names[data.nesting] = data.name
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const isSuite = data.details.type === 'suite'
    if (type === 'test:fail') {
      const error = data.details.error as Error & { readonly failureType?: string }
      // A suite also fails when one of its tests does.
      const isOwn = error.failureType !== 'subtestsFailed'
      const name = names.slice(1, data.nesting + 1).join(' > ') || data.name
      if (isOwn) counts.failures.push({ name, error: inspect(error.cause ?? error, { depth: 6 }) })
    } else {
      const isSkipped = data.skip !== undefined && data.skip !== false
      // A suite that is skipped as a whole has no tests of its own to count.
      if (isSkipped) counts.skipped++
      else if (!isSuite) counts.passed++
    }
    if (data.nesting === 0) ends.emit('file')
  }
  yield ''
}
