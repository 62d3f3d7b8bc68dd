/**
 * Measures the map of the console: how long a map of many points takes from the click to the last picture, and whether panning
 * it loses input. A real service, a real Chromium.
 *
 *   node console/bench/map.ts [points, 50000] [dimension, 128]
 *
 * Nothing else should run on the machine: the load before and after is printed, and below 0.5 the times are good. The seconds
 * that processors have worked (Cpu) hold on a busy machine, too, though with half as many they take about as long: the sample
 * is made on all cores, the layout on one, and pictures are drawn beside it.
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

await using opened = await startConsole({ SEARCH_THREADS: '' })
await fill(opened)
await untilSettled(opened)
const loadBefore = loadavg()[0]!
const page = await opened.open('#/settings')
// The view is loaded and the service warm before the measurement begins.
await page.goto(`${opened.service.httpUrl}/console/#/map?limit=1000`)
await page.getByRole('button', { name: 'Draw again' }).waitFor({ timeout: 600_000 })
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

/** Until the graph is built and its recall measured. */
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
  await page.getByLabel('Points at most').selectOption(String(limit))
  await page.getByText('Arranging').waitFor({ timeout: 3_600_000 })
  const sampledMs = performance.now() - started
  const sampled = await cpuSeconds(session)
  await page.getByRole('button', { name: 'Draw again' }).waitFor({ timeout: 3_600_000 })
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
  /** Pages with their workers. */
  readonly renderers: number
  /** All processes of the browser: without a graphics card, drawing takes a good part of it. */
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

/** Drags the map about; every movement has to reach the page, and none may wait long for it. */
async function pan(page: Page): Promise<Readonly<Record<string, number>>> {
  const box = (await page.locator('.map-canvas').boundingBox())!
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  await page.evaluate(() => {
    const seen: number[] = []
    Object.assign(globalThis, { seen })
    const canvas = document.querySelector('.map-canvas canvas + canvas')!
    canvas.addEventListener('pointermove', (event) => {
      // A browser may hand over several movements in one event.
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
