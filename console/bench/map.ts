/**
 * Measures the map of the console with a real service and a real Chromium: how long a map of many points takes from the
 * click to the last picture, and whether panning loses input.
 *
 *   node console/bench/map.ts [points, 50000] [dimension, 128]
 *
 * Run nothing else on the machine. The script prints the load before and after; the times are valid if it is below 0.5.
 * CPU seconds (Cpu) are also valid on a busy machine. They do not translate directly to elapsed time: half as many can
 * take about as long, because the sample is computed on all cores, the layout on one core, and pictures are drawn at
 * the same time.
 */
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CDPSession, Page } from 'playwright-core'
import { clusteredSource } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { type ConsoleBrowser, startConsole } from '../test/browser.ts'

const seed = 20_261_123
const batch = 1000
const moves = 240
const moveEveryMs = 16

const [count, dimension] = [Number(process.argv[2] ?? 50_000), Number(process.argv[3] ?? 128)]

await using opened = await startConsole({ THREADS: '' })
await fill(opened)
await untilSettled(opened)
const loadBefore = loadavg()[0]!
const page = await opened.open('#/settings')
// Load the view and warm up the service before the measurement.
await page.goto(`${opened.service.httpUrl}/console/#/map?limit=1000`)
await page.getByRole('button', { name: 'Redraw' }).waitFor({ timeout: 600_000 })
const drawn = await draw(page)
const panned = await pan(page)
console.log(
  JSON.stringify(
    {
      points: count,
      dimension,
      ...drawn,
      ...panned,
      load: [loadBefore, loadavg()[0]],
      faults: opened.faults,
    },
    undefined,
    2,
  ),
)

async function fill({ service }: ConsoleBrowser): Promise<void> {
  const next = clusteredSource(seededRandom(seed), dimension)
  for (let start = 0; start < count; start += batch) {
    const vectors = Array.from({ length: Math.min(batch, count - start) }, (_, index) => ({
      vector: Array.from(next()),
      payload: {
        content_type: 'Text',
        content: `point ${start + index}`,
        attributes: { group: `group ${(start + index) % 7}` },
      },
    }))
    const response = await fetch(`${service.httpUrl}/points/batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ vectors }),
    })
    if (!response.ok) throw new Error(await response.text())
  }
}

interface Stats {
  readonly settling: boolean
  readonly waiting: number
  readonly searches: readonly { readonly similarity: string; readonly plan: string }[]
}

/** Waits until the graph is built and its recall is measured. */
async function untilSettled({ service }: ConsoleBrowser): Promise<void> {
  for (;;) {
    const stats = (await (await fetch(`${service.httpUrl}/stats`)).json()) as Stats
    const { plan } = stats.searches.find(({ similarity }) => similarity === 'Cosine')!
    if (!stats.settling && stats.waiting === 0) {
      console.error(`the index is settled; searches under Cosine: ${plan}`)
      return
    }
    await sleep(200)
  }
}

async function draw(page: Page): Promise<Readonly<Record<string, number>>> {
  const session = await page.context().browser()!.newBrowserCDPSession()
  const before = await cpuSeconds(session)
  const started = performance.now()
  const limit = [1000, 5000, 20_000, 50_000, 100_000].find((each) => each >= count) ?? 100_000
  await page.getByLabel('Max points').selectOption(String(limit))
  await page.getByText('Arranging').waitFor({ timeout: 3_600_000 })
  const sampledMs = performance.now() - started
  const sampled = await cpuSeconds(session)
  await page.getByRole('button', { name: 'Redraw' }).waitFor({ timeout: 3_600_000 })
  const drawnMs = performance.now() - started
  const after = await cpuSeconds(session)
  const rounded = (value: number): number => Math.round(value * 10) / 10
  return {
    sampledMs: Math.round(sampledMs),
    layoutMs: Math.round(drawnMs - sampledMs),
    drawnMs: Math.round(drawnMs),
    sampleCpuSOfService: rounded(sampled.service - before.service),
    sampleCpuSOfBrowser: rounded(sampled.browser - before.browser),
    layoutCpuSOfPage: rounded(after.renderers - sampled.renderers),
    layoutCpuSOfBrowser: rounded(after.browser - sampled.browser),
  }
}

interface CpuSeconds {
  /** This process: the service with all its threads, and this script. */
  readonly service: number
  /** The pages with their workers. */
  readonly renderers: number
  /** All processes of the browser. Without a graphics card, drawing takes a large part of this time. */
  readonly browser: number
}

async function cpuSeconds(session: CDPSession): Promise<CpuSeconds> {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const sum = (of: typeof processInfo): number => of.reduce((total, { cpuTime }) => total + cpuTime, 0)
  const { user, system } = process.cpuUsage()
  return {
    service: (user + system) / 1e6,
    renderers: sum(processInfo.filter(({ type }) => type === 'renderer')),
    browser: sum(processInfo),
  }
}

/** Drags the map around. Counts the moves that reach the page, and measures their delays. */
async function pan(page: Page): Promise<Readonly<Record<string, number>>> {
  const box = (await page.locator('.map-canvas').boundingBox())!
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  await page.evaluate(() => {
    const seen: number[] = []
    Object.assign(globalThis, { seen })
    const canvas = document.querySelector('.map-canvas canvas + canvas')!
    canvas.addEventListener('pointermove', (event) => {
      // A browser may combine several moves in one event.
      for (const each of (event as PointerEvent).getCoalescedEvents())
        seen.push(performance.now() - each.timeStamp)
    })
  })
  await page.mouse.move(middle.x, middle.y)
  await page.mouse.down()
  for (let move = 0; move < moves; move += 1) {
    await page.mouse.move(middle.x + 90 * Math.sin(move / 12), middle.y + 60 * Math.cos(move / 17))
    await sleep(moveEveryMs)
  }
  await page.mouse.up()
  const delays = await page.evaluate(() => (globalThis as unknown as { seen: number[] }).seen.slice())
  delays.sort((a, b) => a - b)
  return {
    movesSent: moves,
    movesSeen: delays.length - 1,
    delayP50Ms: Math.round(delays[Math.floor(delays.length / 2)]! * 10) / 10,
    delayP99Ms: Math.round(delays[Math.floor(delays.length * 0.99)]! * 10) / 10,
  }
}
