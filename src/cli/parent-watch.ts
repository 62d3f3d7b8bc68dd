import { readFileSync } from 'node:fs'

/**
 * Ends this process as SIGTERM would when what started it is gone and nobody is left who could pass a signal on.
 *
 * - `npx vicinal serve` is npm, a shell and the service. npm passes SIGTERM on to the shell, the shell dies of it,
 *   and the service would go on alone, holding its ports and its data directory. So does a script of package.json
 *   that says `vicinal serve` without `exec`.
 * - The process that passes signals on to a newer Node (bundled-node.ts) may be killed by one that it cannot pass on.
 *
 * Nothing else is a reason: a service started by a shell, `nohup`, `setsid` or a supervisor outlives its parent as
 * any process does. A script in which `vicinal` is not the only command may have put it into the background, and is
 * left alone for that.
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
  // Watching is no work: a process that is done ends.
  timer.unref()
  check()
}

/** The parents of this process up to npm, nearest first, when npm runs nothing but `vicinal`. */
function npmAbove(script = ''): readonly number[] | undefined {
  if (!plainCommand.test(script)) return undefined
  const parent = parentProcess(process.ppid)
  if (parent === undefined) return undefined
  // Some shells become the command that they run.
  if (isNpm(parent)) return [process.ppid]
  const grandparent = parentProcess(parent.parent)
  return grandparent !== undefined && isNpm(grandparent) ? [process.ppid, parent.parent] : undefined
}

/** Orphans get another parent, and process numbers are used again: what counts is who is whose parent. */
function isAbove([parent, grandparent]: readonly number[]): boolean {
  if (process.ppid !== parent) return false
  return grandparent === undefined || parentProcess(parent)?.parent === grandparent
}

interface ParentProcess {
  readonly name: string
  readonly parent: number
}

/** Undefined when there is no such process, and where the system has no /proc. */
function parentProcess(pid: number): ParentProcess | undefined {
  try {
    // `4711 (npm exec vicinal) S 4242 …`; a name may hold anything, parentheses too.
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

/** `vicinal serve`, `'vicinal'`, `DATA_DIR=data vicinal`: no operator of the shell's in it. */
const plainCommand = /^\s*(?:\w+=[^\s&|;]*\s+)*(['"]?)vicinal\1(?:\s[^&|;\n]*)?$/

/** Ports and lock are free within about this time and the drain. Reading two lines of /proc costs nothing. */
const intervalMs = 1000
