import assert from 'node:assert/strict'

/** Waits for a condition, three minutes at most. */
export async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + 180_000
  while (!(await condition())) {
    assert.ok(Date.now() < endMs, `not in three minutes: ${what}`)
    await pause(50)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
