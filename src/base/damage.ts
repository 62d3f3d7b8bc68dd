import { DatabaseError } from './errors.ts'

/** The error for damage that a repair can set aside: the file, the fault, and what to do. */
export function damaged(path: string, fault: string, cause?: unknown): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${repairableAdvice}`, { cause })
}

/** The error for a row of the file of vectors. */
export function damagedRow(path: string, slot: number, position: number, isWhole: boolean): DatabaseError {
  const fault = isWhole ? 'damaged (its checksum does not match)' : 'cut off'
  return damaged(path, `the row of slot ${slot} at byte ${position} is ${fault}`)
}

/** The error for undamaged data of another format version. */
export function ofOtherVersion(path: string, fault: string): DatabaseError {
  return new DatabaseError(
    'internal',
    `${path} cannot be used: ${fault}. Nothing is damaged: start the program that wrote it, and see docs/upgrading.md.`,
  )
}

/** The error for damage that no repair can fix. */
export function beyondRepair(path: string, fault: string): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${lostAdvice}`)
}

/** The error for a file that the system refuses to open, as it is a directory or belongs to another user. */
export function unopenable(path: string, cause: NodeJS.ErrnoException): DatabaseError {
  const fault = `the system does not open it (${cause.code})`
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${unopenableAdvice}`, { cause })
}

const unopenableAdvice = 'Check that it is a file that the service may read and write.'

const repairableAdvice =
  '`vicinal doctor` lists all damage, `vicinal doctor --repair` sets damaged points aside so that the rest can be served. Or restore a snapshot.'

const lostAdvice =
  'No repair can fix this: restore the newest snapshot into another directory, and keep this one as it is.'

/**
 * Finds the error that reports damaged data, among an error and its causes. It recognizes the text, because an error
 * from another thread keeps nothing else.
 */
export function damageIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice], error)
}

/** Like `damageIn`, and finds a file that cannot be opened too; its data may be undamaged. */
export function unusableIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice, unopenableAdvice], error)
}

function errorWith(advices: readonly string[], error: unknown): Error | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { message } = each
    if (advices.some((advice) => message.endsWith(advice))) return each
  }
  return undefined
}
