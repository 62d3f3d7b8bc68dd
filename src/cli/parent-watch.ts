import { readFileSync } from 'node:fs'

/**
 * Sends SIGTERM to this process when the process that started it has ended, and no other process can pass signals on.
 *
 * - `npx vicinal serve` is npm, a shell and the service. npm passes SIGTERM on to the shell, and the shell ends. The
 *   service would keep running alone, and hold its ports and its data directory. The same happens with a script of
 *   package.json that contains `vicinal serve` without `exec`.
 * - The process that passes signals on to a newer Node (bundled-node.ts) may be killed by a signal that it cannot pass
 *   on.
 *
 * In all other cases it does nothing. A service started by a shell, `nohup`, `setsid` or a supervisor outlives its
 * parent, like any process. A script in which `vicinal` is not the only command may have put it into the background.
 *
 * @param launcher the process that runs this one on a newer Node
 */
export function stopWithParent(
  { npm_lifecycle_script: script }: NodeJS.ProcessEnv,
  launcher: number | undefined,
): void {
  const started = launcher === undefined ? npmAbove(script) : [launcher]
  if (started === undefined) return
  const check = (): void => {
    if (isAbove(started)) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }
  const timer = setInterval(check, intervalMs)
  // The timer does not keep a process alive that has nothing else to do.
  timer.unref()
  check()
}

/** Returns the parents of this process up to npm, nearest first, if npm runs only `vicinal`. */
function npmAbove(script = ''): readonly number[] | undefined {
  if (!plainCommand.test(script)) return undefined
  const parent = parentProcess(process.ppid)
  if (parent === undefined) return undefined
  // Some shells replace themselves with the command that they run.
  if (isNpm(parent)) return [process.ppid]
  const grandparent = parentProcess(parent.parent)
  return grandparent !== undefined && isNpm(grandparent) ? [process.ppid, parent.parent] : undefined
}

/** Checks who is whose parent. Orphans get another parent, and process numbers are reused. */
function isAbove([parent, grandparent]: readonly number[]): boolean {
  if (process.ppid !== parent) return false
  return grandparent === undefined || parentProcess(parent)?.parent === grandparent
}

interface ParentProcess {
  readonly name: string
  readonly parent: number
}

/** Returns undefined if there is no such process, or the system has no /proc. */
function parentProcess(pid: number): ParentProcess | undefined {
  try {
    // `4711 (npm exec vicinal) S 4242 …`; a name may contain any characters, also parentheses.
    const [, name, parent] = /\((.*)\) \S+ (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!
    return { name: name!, parent: Number(parent) }
  } catch {
    return undefined
  }
}

/** npm names its process after the command, like `npm exec vicinal`. */
function isNpm({ name }: ParentProcess): boolean {
  return name.startsWith('npm')
}

/** `vicinal serve`, `'vicinal'`, `DATA_DIR=data vicinal`: without operators of the shell. */
const plainCommand = /^\s*(?:\w+=[^\s&|;]*\s+)*(['"]?)vicinal\1(?:\s[^&|;\n]*)?$/

/** Ports and lock are free after about this time plus the drain. Reading two lines of /proc costs almost nothing. */
const intervalMs = 1000
