/** Settings of earlier versions, by their variables, and what their operator should know. */
export const removedSettings: Readonly<Record<string, string>> = {
  FRONT_THREADS: 'the main thread serves both ports; remove it',
}

/** Finds the variables of removed settings: an environment may still set them, and nothing else would tell. */
export function removedSettingsIn(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(removedSettings).filter((variable) => environment[variable])
}
