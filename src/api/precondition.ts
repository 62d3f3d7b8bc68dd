import type { Filter } from '../base/filter.ts'
import type { Precondition } from '../base/point.ts'
import { invalid } from './call.ts'
import { checkWhole, type IntegerInput, shown } from './checks.ts'

/** The field `when` of a write; it has exactly one of these fields. */
export interface PreconditionInput {
  readonly version?: IntegerInput | undefined
  readonly filter?: Filter | undefined
  readonly absent?: boolean | undefined
}

/** @param ifMatch the HTTP header: a version, equivalent to `when: {"version": …}` */
export function checkPrecondition(
  input: PreconditionInput | undefined,
  ifMatch: string | undefined,
): Precondition | undefined {
  const when = input === undefined ? undefined : checkWhen(input)
  if (ifMatch === undefined) return when
  const version = versionOf(ifMatch)
  if (when === undefined || (when.kind === 'version' && when.version === version)) {
    return { kind: 'version', version }
  }
  throw invalid(`if-match is ${shown(ifMatch)}, but when asks for something else: send one of them`)
}

function checkWhen(input: PreconditionInput): Precondition {
  const { version, filter, absent } = input
  const given = (['version', 'filter', 'absent'] as const).filter((each) => input[each] !== undefined)
  if (given.length !== 1) {
    const fault = given.length === 0 ? 'when is empty' : `when has ${given.join(' and ')}`
    throw invalid(`${fault}: it takes one of version, filter, absent`)
  }
  if (version !== undefined) {
    return {
      kind: 'version',
      version: checkWhole(version, 'when.version', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    }
  }
  if (filter !== undefined) return { kind: 'filter', filter }
  if (absent === true) return { kind: 'absent' }
  throw invalid('when.absent is false, it must be true: leave it out otherwise')
}

/** Weak tags, lists and `*` are refused: a version is exact. */
function versionOf(ifMatch: string): number {
  const digits = /^(?:"(\d{1,16})"|(\d{1,16}))$/.exec(ifMatch.trim())
  const version = Number(digits?.[1] ?? digits?.[2])
  if (digits !== null && version <= Number.MAX_SAFE_INTEGER) return version
  throw invalid(`if-match is ${shown(ifMatch)}, it must be the version of the point, like "5"`)
}
