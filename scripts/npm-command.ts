import { basename } from 'node:path'

/**
 * How to start npm without a shell, for `spawn` and `execFile`. In an npm script, it is the npm that runs the script,
 * as a JavaScript file for Node. On Windows, `npm` itself is a batch file, which only a shell can start.
 *
 * @returns the program and its arguments
 */
export function npmCommand(args: readonly string[]): [command: string, args: string[]] {
  const script = process.env.npm_execpath
  return script !== undefined && basename(script) === 'npm-cli.js'
    ? [process.execPath, [script, ...args]]
    : ['npm', [...args]]
}
