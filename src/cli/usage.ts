export type Environment = Readonly<Record<string, string | undefined>>

/** Something that people can mend by calling differently: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
