import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Note } from './notes.ts'

/** A system call of the recorded program, with when it began and ended: positions in the record. */
export interface Call {
  readonly name: string
  readonly args: string
  readonly result: number
  readonly begin: number
  readonly end: number
}

/** What a program did to the disk, in order. */
export interface Recording {
  readonly dataDir: string
  readonly calls: readonly Call[]
  /** What the program noted, and when that was done. */
  readonly notes: readonly { readonly note: Note; readonly end: number }[]
  /** Every time is below. */
  readonly length: number
}

/** Every call that can change a file or its name, and those that tell which file a descriptor is. */
const traced =
  'openat,open,creat,close,dup,dup2,dup3,lseek,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync,' +
  'sync_file_range,msync,ftruncate,truncate,fallocate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,' +
  'mkdirat,rmdir,mmap,copy_file_range,sendfile,splice,io_uring_enter'

/**
 * Runs recorded-run.ts under strace, which writes every call down with all its data.
 *
 * @param directory where the data directory `data` and the record are made
 */
export async function record(directory: string, seed: number): Promise<Recording> {
  const log = join(directory, 'calls')
  const dataDir = join(directory, 'data')
  const notesPath = join(directory, 'notes')
  const program = [join(import.meta.dirname, 'recorded-run.ts'), dataDir, notesPath, String(seed)]
  const options = ['-f', '--seccomp-bpf', '-qq', '-y', '-xx', '-s', '100000000', '-o', log]
  const child = spawn('strace', [...options, '-e', `trace=${traced}`, process.execPath, ...program], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`the recorded program ended with ${code}`)
  const text = readFileSync(log, 'latin1')
  return recordingOf(parse(text), dataDir, notesPath)
}

/** Two moments for each line: a call on a line of its own begins at the first and ends at the second. */
function parse(text: string): { readonly calls: Call[]; readonly length: number } {
  const calls: Call[] = []
  const unfinished = new Map<string, { readonly args: string; readonly begin: number }>()
  let moment = 0
  for (let from = 0; from < text.length; moment += 2) {
    const to = text.indexOf('\n', from)
    const line = text.slice(from, to)
    from = to + 1
    const [, pid, rest] = /^(\d+) +(.*)$/s.exec(line)!
    if (rest!.endsWith(' <unfinished ...>')) {
      const args = rest!.slice(rest!.indexOf('(') + 1, -' <unfinished ...>'.length)
      unfinished.set(pid!, { args, begin: moment })
      continue
    }
    const resumed = /^<\.\.\. (\w+) resumed>/.exec(rest!)
    const ending = / *\) += (-?\d+)[^"]*$/.exec(rest!.slice(-400))
    // Signals, ends of threads, and calls that never came back.
    if (ending === null) continue
    const name = resumed?.[1] ?? rest!.slice(0, rest!.indexOf('('))
    const start = resumed === null ? rest!.indexOf('(') + 1 : resumed[0].length
    const args = rest!.slice(start, rest!.length - ending[0].length)
    const first = resumed === null ? undefined : unfinished.get(pid!)
    const result = Number(ending[1])
    calls.push({
      name,
      args: (first?.args ?? '') + args,
      result,
      begin: first?.begin ?? moment,
      end: moment + 1,
    })
  }
  return { calls, length: moment }
}

function recordingOf(
  { calls, length }: { readonly calls: readonly Call[]; readonly length: number },
  dataDir: string,
  notesPath: string,
): Recording {
  const notes = calls
    .filter(({ name, args }) => name === 'write' && pathOfDescriptor(args) === notesPath)
    .map(({ args, end }) => ({ note: JSON.parse(stringsOf(args)[0]!.toString()) as Note, end }))
  return { dataDir, calls: calls.filter(({ result }) => result >= 0), notes, length }
}

/** The path of the descriptor that a call's arguments begin with. */
export function pathOfDescriptor(args: string): string {
  const found = /^(?:AT_FDCWD|\d+)<([^>]*)>/.exec(args)
  return found === null ? '' : bytesOf(found[1]!).toString()
}

/** The quoted strings among a call's arguments: paths, and the data of writes. */
export function stringsOf(args: string): Buffer[] {
  return [...args.matchAll(/"([^"]*)"/g)].map(([, text]) => bytesOf(text!))
}

/** All bytes stand as `\x2f`; of a path, strace may leave some as they are. */
function bytesOf(text: string): Buffer {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex')
}
