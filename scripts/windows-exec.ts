import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Gives Windows the command `exec` that npm scripts begin with, in npm's directory of commands.
 *
 * Where `sh` runs the scripts, `exec` is its own: the shell becomes the program, so the signals that npm passes on reach
 * it. Windows has neither, and runs what follows.
 */
export function provideExec(binaries: string, platform: NodeJS.Platform = process.platform): void {
  if (platform === 'win32') writeFileSync(join(binaries, 'exec.cmd'), '@%*\r\n')
}
