/**
 * Throws on a programming error. Callers' mistakes never get here: the api rejects them.
 * The message is for the log; a caller sees `internal`.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}
