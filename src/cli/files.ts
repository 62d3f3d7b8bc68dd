import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError } from './arguments.ts'

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
