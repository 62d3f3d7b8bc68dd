/**
 * `npm run bench:console` measures how much time the console adds to a search, and when its first page is painted, in
 * Chromium on this machine. Run it on an idle machine. It asserts nothing.
 */
import type { Page } from 'playwright-core'
import { glosses, missingChromium, startConsole, storeGlosses } from './browser.ts'

const searches = 100
const warmUp = 10
const loads = 15

interface Sample {
  /** The time from the change of the query until its results are painted. */
  readonly shownMs: number
  /** The time of the request alone, as measured by the browser. */
  readonly requestMs: number
}

if (missingChromium !== false) throw new Error(missingChromium)
const browser = await startConsole()
try {
  const ids = await storeGlosses(browser.service, glosses(2046))
  const api: number[] = []
  const samples: Sample[] = []
  const page = await browser.open(`#/search?id=${ids[0]}`, { isWatched: false })
  await page.locator('.result').first().waitFor()
  await watchResults(page)
  for (let index = 0; index < warmUp + searches; index++) {
    const id = ids[(index * 17 + 1) % ids.length]!
    const apiMs = await searchByApi(page, id)
    const sample = await searchByConsole(page, id)
    if (index < warmUp) continue
    api.push(apiMs)
    samples.push(sample)
  }
  await page.close()
  print('API, fetch in the page with the same body', api)
  print(
    'console, its request',
    samples.map(({ requestMs }) => requestMs),
  )
  print(
    'console, until its results are painted',
    samples.map(({ shownMs }) => shownMs),
  )
  await measureLoads(ids[0]!)
} finally {
  await browser[Symbol.asyncDispose]()
}

/** Sends the same search without the console: the same body, from the same page. */
async function searchByApi(page: Page, id: string): Promise<number> {
  return await page.evaluate(async (near) => {
    const startedMs = performance.now()
    const response = await fetch('../points/search', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        id: near,
        similarity: 'Cosine',
        limit: 10,
        include: { distance: true, payload: true },
        profile: true,
      }),
    })
    await response.text()
    return performance.now() - startedMs
  }, id)
}

/** Dispatches an event after each change of the results is painted. */
async function watchResults(page: Page): Promise<void> {
  await page.evaluate(() => {
    new MutationObserver(() => {
      requestAnimationFrame(() => {
        // The frame is about to be painted; a task queued now runs after it.
        const channel = new MessageChannel()
        channel.port1.onmessage = () => dispatchEvent(new Event('results-painted'))
        channel.port2.postMessage(0)
      })
    }).observe(document.querySelector('.search-main')!, {
      childList: true,
      subtree: true,
      characterData: true,
    })
  })
}

async function searchByConsole(page: Page, id: string): Promise<Sample> {
  return await page.evaluate(async (near) => {
    performance.clearResourceTimings()
    // Longer than the debounce interval of the search view.
    await new Promise((resolve) => setTimeout(resolve, 200))
    const startedMs = performance.now()
    location.hash = `#/search?id=${near}`
    const isShown = (): boolean =>
      performance.getEntriesByType('resource').some(({ name }) => name.endsWith('/points/search')) &&
      document.querySelector('.results-head.busy') === null
    do await new Promise((resolve) => addEventListener('results-painted', resolve, { once: true }))
    while (!isShown())
    const shownMs = performance.now() - startedMs
    const entries = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
    const request = entries.find(({ name }) => name.endsWith('/points/search'))!
    return { shownMs, requestMs: request.responseEnd - request.startTime }
  }, id)
}

/** Measures first visits: each page has its own empty cache. */
async function measureLoads(id: string): Promise<void> {
  const paints: Record<string, number[]> = {
    'first paint': [],
    'first contentful paint': [],
    'results shown': [],
  }
  for (let load = 0; load < loads; load++) {
    const page = await browser.open(`#/search?id=${id}`, { isWatched: false })
    await page.locator('.result').first().waitFor()
    const found = await page.evaluate(() => ({
      entries: performance.getEntriesByType('paint').map(({ name, startTime }) => [name, startTime] as const),
      shownMs: performance.now(),
    }))
    for (const [name, ms] of found.entries) paints[name.replaceAll('-', ' ')]?.push(ms)
    paints['results shown']!.push(found.shownMs)
    await page.close()
  }
  for (const [name, values] of Object.entries(paints)) print(name, values)
}

function print(name: string, values: readonly number[]): void {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number): string =>
    (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(1)
  console.log(`${name.padEnd(42)} p50 ${at(0.5)} ms   p95 ${at(0.95)} ms   of ${sorted.length}`)
}
