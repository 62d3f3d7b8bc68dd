/**
 * Stops on a programmer's error. Callers' mistakes never arrive here: the api has refused them.
 * The message is for the log; what a caller sees is `internal`.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}
