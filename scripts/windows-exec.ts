import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Adds the command `exec`, with which npm scripts begin, to npm's directory of commands on Windows.
 *
 * On other systems, `exec` is a built-in of `sh`: the program replaces the shell, so that it receives the signals from
 * npm. Windows has neither, so its `exec` only runs the rest of the line.
 */
export function provideExec(binaries: string, platform: NodeJS.Platform = process.platform): void {
  if (platform === 'win32') writeFileSync(join(binaries, 'exec.cmd'), '@%*\r\n')
}
