const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

type StopSignal = keyof typeof exitCodes

/** The error of a command that was stopped before its end. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: StopSignal) {
    super('interrupted')
    this.exitCode = exitCodes[signal]
  }
}

/**
 * Resolves with the first SIGINT or SIGTERM. A second signal of either kind ends the process immediately, with the
 * usual exit code for that signal.
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
 * A Ctrl-C under `npm start` arrives twice: from the terminal, which signals its whole process group, and from npm,
 * which passes it on. Nobody types it again this fast.
 */
const echoMs = 300
