const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof exitCodes

/** A command that was stopped before it had ended. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: StopSignal) {
    super('interrupted')
    this.exitCode = exitCodes[signal]
  }
}

/**
 * Resolves with the first SIGINT or SIGTERM. A second one of either kind ends the process at once, with the
 * exit code that shells know it by.
 */
export function stopSignal(): Promise<StopSignal> {
  return new Promise((resolve) => {
    let firstMs: number | undefined
    const onSignal = (signal: NodeJS.Signals): void => {
      firstMs ??= performance.now()
      if (performance.now() - firstMs > echoMs) process.exit(exitCodes[signal as StopSignal])
      resolve(signal as StopSignal)
    }
    for (const signal of Object.keys(exitCodes)) process.on(signal, onSignal)
  })
}

/**
 * A Ctrl-C under `npm start` comes twice: from the terminal, which tells its whole process group, and from
 * npm, which passes it on. Nobody types it again this fast.
 */
const echoMs = 300
