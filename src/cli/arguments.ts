import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { dateIn } from '../import/values.ts'
import { settings } from '../settings/table.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** An error that the user can fix by changing the command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

// Parsers for values on the command line.

export function whole(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError('It is not a whole number of at least 1.')
  return Number(text)
}

export function wholeOrNone(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It is not a whole number.')
  return Number(text)
}

export function finite(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('It is not a number.')
  return value
}

/** Parses a size like those of settings: `4G`. */
export function sizeOf(text: string): number {
  try {
    return settings.maxMemoryBytes.parse(text)
  } catch (error) {
    throw new InvalidArgumentError(`It ${(error as Error).message}.`)
  }
}

/** Parses which backups to keep: a number of them, or an age like `30d` or `12h`. */
export function keepOf(text: string): { readonly count: number } | { readonly ageMs: number } {
  const [, digits, unit] = /^([1-9]\d{0,5})([dh]?)$/.exec(text) ?? []
  if (digits === undefined)
    throw new InvalidArgumentError('It is not a number like 14, or an age like 30d or 12h.')
  const count = Number(digits)
  return unit === '' ? { count } : { ageMs: count * (unit === 'd' ? 24 : 1) * 3_600_000 }
}

/** Parses a time like `2026-11-27T03:15:00Z`; returns milliseconds since 1970. */
export function timeOf(text: string): number {
  const isWhole = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)
  // `Date.parse` takes February 30 for March 2.
  const time = isWhole ? dateIn(text.replace(/(\.\d{6})\d+/, '$1')) : undefined
  if (time !== undefined) return Math.floor(time.us / 1000)
  throw new InvalidArgumentError('It is not a time like 2026-11-27T03:15:00Z.')
}

/** Parses names separated by commas. An empty text has no names. */
export function names(text: string): string[] {
  return text === '' ? [] : text.split(',').map((name) => name.trim())
}

/** Parses the separator of a CSV file; a tab may be written as `tab`. */
export function separator(text: string): string {
  const sign = text === 'tab' || text === '\\t' ? '\t' : text
  if (/^[\t -!#-~]$/.test(sign)) return sign
  throw new InvalidArgumentError('It is not one character of ASCII, or tab.')
}

/** Parses a JSON array, an object with a `vector`, or plain numbers like `1,2,3` or `1 2 3`. */
export function vectorIn(text: string, source: string): number[] {
  const isJson = /^\s*[[{]/.test(text)
  let parsed: unknown
  try {
    parsed = JSON.parse(isJson ? text : `[${text.trim().split(/\s*,\s*|\s+/)}]`)
  } catch (error) {
    throw new UsageError(`${source} is not a vector like [1, 2, 3] or 1,2,3: ${(error as Error).message}`)
  }
  const numbers = Array.isArray(parsed) ? parsed : (parsed as { vector?: unknown } | null)?.vector
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === 'number')) {
    throw new UsageError(`${source} is not a vector, an array of numbers like [1, 2, 3] or 1,2,3`)
  }
  return numbers
}

/** Formats rows of cells as lines. Each column is as wide as its widest cell. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}

/**
 * Checks that a file that the caller has named can be read. The system's error would not say which option named it, and
 * for a directory not even its name.
 *
 * @param name the option that named the file, like `--texts`; undefined for an argument
 */
export function checkReadable(path: string, name?: string): void {
  const file = name === undefined ? path : `${name}: ${path}`
  if (!existsSync(path)) throw new UsageError(`${file} does not exist`)
  if (statSync(path).isDirectory()) throw new UsageError(`${file} is a directory, it must be a file`)
  try {
    accessSync(path, constants.R_OK)
  } catch {
    throw new UsageError(`${file} cannot be read by ${userName()}`)
  }
}

/** Reads a file that the caller has named. @throws UsageError if it cannot be read */
export function readNamed(path: string, name: string): string {
  checkReadable(path, name)
  return readFileSync(path, 'utf8')
}

/** Explains an error of the file system, with what to do; undefined for any other error. */
export function fileFault({ code, path }: NodeJS.ErrnoException): string | undefined {
  if (path === undefined) return undefined
  const directory = dirname(path)
  switch (code) {
    case 'ENOENT':
      return existsSync(directory)
        ? `${path} does not exist`
        : `there is no directory ${directory} for ${path}: create it, or name another`
    case 'ENOTDIR':
      return `${path}: a part of this path is a file, not a directory`
    case 'EISDIR':
      return `${path} is a directory, it must be a file`
    case 'EACCES':
    case 'EPERM':
      return `${path} cannot be read or written by ${userName()}: change its owner or mode, or name another`
    case 'EROFS':
      return `${path} is on a file system that is mounted read-only: name another`
  }
  return undefined
}

function userName(): string {
  const user = process.getuid?.()
  return user === undefined ? 'this user' : `this user (${user})`
}

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
