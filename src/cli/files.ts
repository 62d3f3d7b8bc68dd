import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError } from './usage.ts'

/**
 * Makes sure that a file which the caller has named can be read: the system's own error would say neither which of
 * them it is nor, of a directory, its name.
 *
 * @param name how the file was given, like `--texts`; undefined for an argument
 */
export function checkReadable(path: string, name?: string): void {
  const file = name === undefined ? path : `${name}: ${path}`
  if (!existsSync(path)) throw new UsageError(`${file} is not there`)
  if (statSync(path).isDirectory()) throw new UsageError(`${file} is a directory, it must be a file`)
  try {
    accessSync(path, constants.R_OK)
  } catch {
    throw new UsageError(`${file} may not be read by ${userName()}`)
  }
}

/** The text of a file that the caller has named. @throws UsageError when it cannot be read */
export function readNamed(path: string, name: string): string {
  checkReadable(path, name)
  return readFileSync(path, 'utf8')
}

/** An error of the file system in words that say what to do; undefined for any other. */
export function fileFault({ code, path }: NodeJS.ErrnoException): string | undefined {
  if (path === undefined) return undefined
  const directory = dirname(path)
  switch (code) {
    case 'ENOENT':
      return existsSync(directory)
        ? `${path} is not there`
        : `there is no directory ${directory} for ${path}: make it, or name another`
    case 'ENOTDIR':
      return `${path}: a part of this path is a file, not a directory`
    case 'EISDIR':
      return `${path} is a directory, it must be a file`
    case 'EACCES':
    case 'EPERM':
      return `${path} may not be read or written by ${userName()}: change its owner or mode, or name another`
    case 'EROFS':
      return `${path} is on a file system that is mounted read-only: name another`
  }
  return undefined
}

function userName(): string {
  const user = process.getuid?.()
  return user === undefined ? 'this user' : `this user (${user})`
}
