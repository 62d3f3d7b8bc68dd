import type { Scalar } from '../../../src/base/attributes.ts'
import type { Filter, Test } from '../../../src/base/filter.ts'

/**
 * Translates a filter to zvec's language. That has no negation of expressions, so negation is pushed down to the
 * conditions.
 *
 * @throws Error for a test that the benchmark does not use
 */
export function zvecFilter(filter: Filter): string {
  return spelled(filter, false)
}

function spelled(filter: Filter, isNegated: boolean): string {
  switch (filter.kind) {
    case 'not':
      return spelled(filter.of, !isNegated)
    case 'all':
      return joined(filter.of, isNegated, isNegated ? 'or' : 'and')
    case 'any':
      return joined(
        filter.of.filter((part) => !isNever(part)),
        isNegated,
        isNegated ? 'and' : 'or',
      )
    case 'condition':
      return condition(filter.path, filter.test, isNegated)
    case 'ids':
    case 'partitions':
      throw new Error('filters by id are not supported')
  }
}

function joined(of: readonly Filter[], isNegated: boolean, word: 'and' | 'or'): string {
  if (of.length === 0) throw new Error('a filter without conditions is not supported')
  return of.map((part) => `(${spelled(part, isNegated)})`).join(` ${word} `)
}

/** Whether a filter is `in` with an empty list, which zvec does not support. */
function isNever(filter: Filter): boolean {
  return filter.kind === 'condition' && filter.test.op === 'in' && filter.test.values.length === 0
}

function condition(path: string, test: Test, isNegated: boolean): string {
  if (test.op === 'in') {
    const [only] = test.values
    if (test.values.length === 1) return `${path} ${isNegated ? '!=' : '='} ${literal(only!)}`
    return `${path} ${isNegated ? 'not in' : 'in'} (${test.values.map(literal).join(',')})`
  }
  if (test.op !== 'range') throw new Error(`${test.op} is not supported`)
  const { gt, gte, lt, lte } = test.bounds
  const bounds = [
    ...(gt === undefined ? [] : [`${path} ${isNegated ? '<=' : '>'} ${gt}`]),
    ...(gte === undefined ? [] : [`${path} ${isNegated ? '<' : '>='} ${gte}`]),
    ...(lt === undefined ? [] : [`${path} ${isNegated ? '>=' : '<'} ${lt}`]),
    ...(lte === undefined ? [] : [`${path} ${isNegated ? '>' : '<='} ${lte}`]),
  ]
  return bounds.join(isNegated ? ' or ' : ' and ')
}

function literal(value: Scalar): string {
  return typeof value === 'string' ? `'${value}'` : String(value)
}
