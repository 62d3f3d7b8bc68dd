import type { Environment } from './usage.ts'

export interface StatsOptions {
  readonly http: string
  readonly apiKey?: string
  readonly json?: boolean
}

/** Figures of a running service, from its metrics. */
export async function showStats(
  { http, apiKey, json }: StatsOptions,
  environment: Environment,
): Promise<void> {
  const key = apiKey ?? environment.HTTP_API_KEY
  const headers = key ? { authorization: key } : {}
  const [metrics, ready] = await Promise.all([
    fetchText(new URL('/metrics', http), headers),
    fetch(new URL('/readyz', http)),
  ])
  const figures = { state: ready.ok ? 'ready' : 'loading', ...figuresOf(metrics) }
  if (json) console.log(JSON.stringify(figures))
  else for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(28)}${value}`)
}

async function fetchText(url: URL, headers: Record<string, string>): Promise<string> {
  let response: Response
  try {
    response = await fetch(url, { headers })
  } catch (error) {
    throw new Error(`no answer from ${url.origin}`, { cause: error })
  }
  const text = await response.text()
  if (!response.ok) throw new Error(`${url.href} answered ${response.status}: ${text}`)
  return text
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
