import { defaultHttpUrl, httpUrl } from './connection.ts'
import type { Environment } from './usage.ts'

export interface StatsOptions {
  readonly http?: string
  readonly apiKey?: string
  readonly json?: boolean
}

/** Figures of a running service, from its metrics. */
export async function showStats(options: StatsOptions, environment: Environment): Promise<void> {
  const base = options.http === undefined ? defaultHttpUrl(environment) : httpUrl(options.http)
  const key = options.apiKey ?? environment.VICINAL_API_KEY ?? environment.HTTP_API_KEY
  const headers = key ? { authorization: key } : {}
  const ready = await answerOf(new URL('/readyz', base), headers)
  const metrics = await answerOf(new URL('/metrics', base), headers)
  const text = await metrics.text()
  if (!metrics.ok) throw new Error(`${metrics.url} answered ${metrics.status}: ${text}`)
  const figures = { state: ready.ok ? 'ready' : 'loading', ...figuresOf(text) }
  if (options.json) console.log(JSON.stringify(figures))
  else for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(28)}${value}`)
}

async function answerOf(url: URL, headers: Readonly<Record<string, string>>): Promise<Response> {
  try {
    return await fetch(url, { headers })
  } catch (error) {
    throw new Error(`no answer from ${url.origin}: does the service run, with HTTP, and is --http right?`, {
      cause: error,
    })
  }
}

/** Our own gauges by their names without the prefix, the process's memory, and requests summed. */
function figuresOf(text: string): Record<string, number> {
  const figures: Record<string, number> = {}
  for (const [, name, labels, value] of text.matchAll(/^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)$/gm)) {
    if (name === 'process_resident_memory_bytes') figures.resident_memory_bytes = Number(value)
    else if (name === 'vicinal_requests_total') figures.requests = (figures.requests ?? 0) + Number(value)
    else if (name!.startsWith('vicinal_') && labels === undefined && !/_(sum|count)$/.test(name!)) {
      figures[name!.slice('vicinal_'.length)] = Number(value)
    }
  }
  return figures
}
