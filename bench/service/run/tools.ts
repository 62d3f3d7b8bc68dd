import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { apiKey, type Transport, type WireRequest } from '../load/load-plan.ts'
import { type Usage, usageBetween, usageOf } from '../load/usage.ts'
import type { Workload } from '../load/workloads.ts'
import type { Target } from '../targets/target.ts'

/** The result of single searches sent by a public tool: h2load for gRPC, wrk for HTTP. */
export interface ToolResult {
  readonly target: string
  readonly transport: Transport
  readonly tool: string
  readonly requestsPerSecond: number
  readonly failed: number
  readonly usage: Usage | undefined
}

export const toolOf: Readonly<Record<Transport, string>> = { grpc: 'h2load', http: 'wrk' }

/**
 * Measures single searches with a public tool. The tools use less CPU time than our generator in Node, which leaves
 * more for the server. h2load repeats the same query, whose data is therefore always in the CPU caches. wrk sends all
 * queries.
 *
 * @returns undefined if the tool is not installed
 */
export async function measureByTool(
  target: Target,
  workload: Workload,
  transport: Transport,
  seconds: number,
): Promise<ToolResult | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'vicinal-bench-'))
  try {
    const requests = target.requests(workload, transport)
    const command = await commandOf[transport](folder, requests, target.ports[transport]!, Math.ceil(seconds))
    const before = usageOf(target.pid)
    const output = await run(toolOf[transport], command)
    if (output === undefined) return undefined
    const usage = usageBetween(before, usageOf(target.pid))
    return { target: target.name, transport, tool: toolOf[transport], usage, ...figuresOf[transport](output) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type CommandOf = (
  folder: string,
  requests: readonly WireRequest[],
  port: number,
  seconds: number,
) => Promise<string[]>

const commandOf: Readonly<Record<Transport, CommandOf>> = {
  async grpc(folder, requests, port, seconds) {
    const { path, body } = requests[0]!
    const file = join(folder, 'message')
    const head = Buffer.alloc(5)
    head.writeUInt32BE(body.length, 1)
    await writeFile(file, Buffer.concat([head, body]))
    const headers = ['content-type: application/grpc', 'te: trailers', `authorization: ${apiKey}`]
    const url = `http://127.0.0.1:${port}${path}`
    const load = [
      '--duration',
      `${seconds}s`,
      '--clients',
      '1',
      '--max-concurrent-streams',
      '64',
      '--threads',
      '1',
    ]
    return [...load, '--data', file, ...headers.flatMap((each) => ['--header', each]), url]
  },
  async http(folder, requests, port, seconds) {
    await writeFile(join(folder, 'bodies'), requests.map(({ body }) => `${Buffer.from(body)}\n`).join(''))
    const script = join(folder, 'script.lua')
    await writeFile(script, wrkScript(join(folder, 'bodies')))
    const url = `http://127.0.0.1:${port}${requests[0]!.path}`
    return ['--threads', '1', '--connections', '64', '--duration', `${seconds}s`, '--script', script, url]
  },
}

function wrkScript(bodies: string): string {
  return `local requests, next = {}, 0
function init()
  wrk.method = 'POST'
  wrk.headers['content-type'] = 'application/json'
  for body in io.lines('${bodies}') do requests[#requests + 1] = wrk.format(nil, nil, nil, body) end
end
function request()
  next = next % #requests + 1
  return requests[next]
end
`
}

const figuresOf: Readonly<
  Record<Transport, (output: string) => Pick<ToolResult, 'requestsPerSecond' | 'failed'>>
> = {
  grpc: (output) => ({
    requestsPerSecond: number(output, /, ([\d.]+) req\/s/),
    failed:
      number(output, /(\d+) failed/) + number(output, /(\d+) errored/) + number(output, /(\d+) timeout/),
  }),
  http: (output) => ({
    requestsPerSecond: number(output, /Requests\/sec: *([\d.]+)/),
    failed: number(output, /Non-2xx or 3xx responses: (\d+)/),
  }),
}

/** A figure in the output; 0 if it is missing, because wrk prints failures only if there are any. */
function number(output: string, pattern: RegExp): number {
  return Number(pattern.exec(output)?.[1] ?? 0)
}

/** The output of a program; undefined if it is not installed. */
async function run(program: string, args: readonly string[]): Promise<string | undefined> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  return await new Promise((resolve, reject) => {
    let output = ''
    child.stdout.on('data', (text) => (output += String(text)))
    child.stderr.on('data', (text) => (output += String(text)))
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') resolve(undefined)
      else reject(error)
    })
    child.on('close', (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${program} ended with code ${code}: ${output}`))
    })
  })
}
