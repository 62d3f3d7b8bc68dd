import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Note } from './notes.ts'

/** A system call of the recorded program; `begin` and `end` are positions in the record. */
export interface Call {
  readonly name: string
  readonly args: string
  readonly result: number
  readonly begin: number
  readonly end: number
}

/** The disk operations of a program, in order. */
export interface Recording {
  readonly dataDir: string
  readonly calls: readonly Call[]
  /** The program's notes, and when each was written. */
  readonly notes: readonly { readonly note: Note; readonly end: number }[]
  /** All positions are below this. */
  readonly length: number
}

/** All calls that can change a file or its name, and those that show which file a descriptor refers to. */
const traced =
  'openat,open,creat,close,dup,dup2,dup3,lseek,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync,' +
  'sync_file_range,msync,ftruncate,truncate,fallocate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,' +
  'mkdirat,rmdir,mmap,copy_file_range,sendfile,splice,io_uring_enter'

/**
 * Runs recorded-run.ts under strace, which records every call with all its data.
 *
 * @param directory in which the data directory `data` and the record are created
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

/** Assigns two positions to each line: a call on a single line begins at the first and ends at the second. */
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
    // Signals, thread ends, and calls that never returned.
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

/** The path of the descriptor in a call's first argument. */
export function pathOfDescriptor(args: string): string {
  const found = /^(?:AT_FDCWD|\d+)<([^>]*)>/.exec(args)
  return found === null ? '' : bytesOf(found[1]!).toString()
}

/** The quoted strings among a call's arguments: paths and written data. */
export function stringsOf(args: string): Buffer[] {
  return [...args.matchAll(/"([^"]*)"/g)].map(([, text]) => bytesOf(text!))
}

/** strace writes bytes as `\x2f`; in paths, some may be plain characters. */
function bytesOf(text: string): Buffer {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex')
}
