const buffered = 'MAX_BUFFERED_BYTES bounds requests, waiting changes and answers alike; set that instead'

/** Advice for the settings of earlier versions, by their variables. */
export const removedSettings: Readonly<Record<string, string>> = {
  FRONT_THREADS: 'the main thread serves both ports; remove it',
  GRPC_KEEPALIVE_MS: 'gRPC connections are pinged every 60 s; remove it',
  IDEMPOTENCY_KEY_LIFE_MS: 'keys are kept for 24 hours, which MAX_IDEMPOTENCY_KEYS may cut short; remove it',
  MAX_BUFFERED_ANSWER_BYTES: buffered,
  MAX_BUFFERED_REQUEST_BYTES: buffered,
  MAX_QUEUED_WRITE_BYTES: buffered,
  MAX_UNINDEXED_BYTES: 'inserts wait while more than 2 MiB of vectors are not indexed; remove it',
}

/** Finds variables of removed settings, which an environment may still set. */
export function removedSettingsIn(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(removedSettings).filter((variable) => environment[variable])
}
