/** A variable that was a setting of an earlier version, and what its operator should know. */
export interface RemovedSetting {
  readonly variable: string
  readonly advice: string
}

/** Finds variables that an earlier version read: its environment may still set them, and nothing else would tell. */
export function removedSettings(environment: Readonly<Record<string, string | undefined>>): RemovedSetting[] {
  return Object.entries(advices).flatMap(([variable, advice]) =>
    environment[variable] ? [{ variable, advice }] : [],
  )
}

const advices: Readonly<Record<string, string>> = {
  FRONT_THREADS: 'the main thread serves both ports; remove it',
}
