export type Environment = Readonly<Record<string, string | undefined>>

/** An error that the user can fix by changing the command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
