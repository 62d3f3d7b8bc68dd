/**
 * `npm run console:pictures` takes the pictures of the console in docs/images, from a service with the demo's data. It
 * saves them as WebP, which takes a fifth of the size of PNG. With names, like `-- search-groups`, it takes only these.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { ClusterProcesses, type NodeProcess } from '../../test/cluster/cluster-processes.ts'
import { natsMissing } from '../../test/support/nats-servers.ts'
import { until } from '../../test/support/until.ts'
import { missingChromium, type PageBrowser, pictureOptions, startBrowser, startConsole } from './browser.ts'

const root = join(import.meta.dirname, '../..')
const data = join(root, 'demo/data')
const images = join(root, 'docs/images')
const dimension = 512
const quality = 0.82
const names = process.argv.slice(2)
const chartSeconds = 60

const lamps = `content,v0,v1,v2,v3,price,zip,in_stock,since
Desk lamp,0.12,0.5,-0.3,0.8,39.5,10115,true,2026-01-31
"Floor lamp, brass",0.1,0.45,-0.2,0.9,129,00501,false,2025-11-02
Lantern,-0.4,0.2,0.7,0.1,24.9,80331,true,2026-03-14
`

interface Gloss {
  readonly text: string
  readonly attributes: Readonly<Record<string, unknown>>
}

interface Stored {
  /** Of the gloss that the pictures search near. */
  readonly id: string
  /** Queries of the demo, and the glosses that have a word of the answer, one a line. */
  readonly judgements: string
}

const answers: Readonly<Record<string, RegExp>> = {
  'beaked-whale': /\bwhale/i,
  cumulonimbus: /\bcloud/i,
  'anadama-bread': /\bbread/i,
  recital: /\bmusical/i,
  anger: /\bang(er|ry)\b/i,
  'khyber-pass': /\bmountain/i,
  interpreter: /\bprogram/i,
  'spanish-pointer': /\bdogs?\b/i,
}

const missing = missingChromium || natsMissing()
if (missing !== false) throw new Error(missing)
const directory = mkdtempSync(join(tmpdir(), 'vicinal-pictures-'))
const browser = await startConsole()
try {
  await takeAll(await storeDemo())
  if (isWanted('cluster-dark')) await takeCluster()
} finally {
  await browser[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
}

/** Takes a picture of each view in typical use. */
async function takeAll({ id, judgements }: Stored): Promise<void> {
  const filter = JSON.stringify({ pos: 'noun' })
  await take('search', `#/search?id=${id}&compare=1&filter=${filter}`, async (page) => {
    // Compare three values of ef by the positions of the slider: 16, 128, 64.
    await page.locator('.tries tbody tr').waitFor()
    for (const [row, place] of ['2', '8', '6'].entries()) {
      await page.getByLabel('ef', { exact: true }).fill(place)
      await page
        .locator('.tries tbody tr')
        .nth(row + 1)
        .waitFor()
    }
  })
  await send(browser.service.httpUrl, 'PUT', 'collections/default', { words: { paths: { content: 1 } } })
  // Waits until the words are indexed.
  await send(browser.service.httpUrl, 'POST', 'points/search', { words: 'whale', limit: 1 })
  const words = 'words=toothed+whale&balance=0.4&group=topic'
  await take('search-groups', `#/search?id=${id}&${words}`, shown('.group-value'))
  const boost = encodeURIComponent('[{"filter": {"length": {"$lt": 90}}, "weight": 0.2}]')
  await take('search-shape', `#/search?words=white+dog&diversity=0.2&boost=${boost}`, shown('.result'))
  await take('relevance', '#/relevance', async (page) => {
    await page.getByLabel('Judgements', { exact: true }).fill(judgements)
    await page.getByLabel('balance', { exact: true }).check()
    await page.getByRole('button', { name: 'Measure' }).click()
    await page.getByText(/better, \d+ worse/).waitFor()
  })
  await take('search-dark', `#/search?id=${id}&as=cards`, shown('.result'), 'dark')
  await take('points', `#/points?filter=${filter}`, shown('.facets'))
  await take('point', `#/points?id=${id}`, async (page) => {
    await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Value of topic').waitFor()
  })
  await take('map', '#/map?colour=topic', async (page) => {
    await page.getByRole('button', { name: 'Redraw' }).waitFor()
    await page.locator('.map-legend li').first().waitFor()
  })
  await take('import', '#/import?c=shop', async (page) => {
    const path = join(directory, 'lamps.csv')
    writeFileSync(path, lamps)
    await page.locator('input[type=file]').setInputFiles(path)
    await page.getByRole('button', { name: 'Import lamps.csv' }).waitFor()
  })
  await take('collections', '#/collections', shown('tbody .chip'))
  await take('snapshots', '#/snapshots', shown('.snapshot-list li'))
  const body = JSON.stringify({ paths: ['pos', 'topic'], limit: 3 }, null, 2)
  const request = `method=POST&path=/points/facets&body=${encodeURIComponent(body)}`
  await take('requests', `#/requests?${request}`, async (page) => {
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByText('200 OK').waitFor()
    await page.locator('.json-editor').waitFor()
  })
  await take('settings', '#/settings', shown('.rows'), 'dark')
  await take('overview', '#/', async (page) => {
    await page.locator('.chart canvas').first().waitFor()
    await sendRequests(id)
  })
}

/** Sends searches and inserts for as long as the charts of the overview show, at a rate that rises and falls. */
async function sendRequests(id: string): Promise<void> {
  const { httpUrl } = browser.service
  const search = { id, similarity: 'Cosine', limit: 10 }
  const lamp = { vector: [0.1, 0.2, 0.3, 0.4], payload: { content_type: 'Text', content: 'Wall lamp' } }
  for (let step = 0; step < chartSeconds * 10; step++) {
    const searches = Math.round(6 + 4 * Math.sin(step / 60))
    await Promise.all(Array.from({ length: searches }, () => send(httpUrl, 'POST', 'points/search', search)))
    if (step % 3 === 0) await send(httpUrl, 'POST', 'collections/shop/points', lamp)
    await sleep(100)
  }
}

/** Takes a picture of a cluster with a node that was killed. */
async function takeCluster(): Promise<void> {
  await using cluster = await ClusterProcesses.start({ logServers: 3, nodes: 3 })
  const [first, , last] = cluster.nodes as [NodeProcess, NodeProcess, NodeProcess]
  for (const node of cluster.nodes) await until(() => node.isReady())
  for (let x = 0; x < 50; x++) {
    await send(first.url, 'POST', 'points', {
      vector: [x, 1],
      payload: { content_type: 'Text', content: '' },
    })
  }
  await using pages = await startBrowser({ httpUrl: first.url })
  await last.kill()
  await take('cluster-dark', '#/cluster', shown('.health .notice'), 'dark', pages)
}

function isWanted(name: string): boolean {
  return names.length === 0 || names.includes(name)
}

function shown(selector: string): (page: Page) => Promise<void> {
  return async (page) => {
    await page.locator(selector).first().waitFor()
  }
}

async function take(
  name: string,
  hash: string,
  ready: (page: Page) => Promise<void>,
  colorScheme: 'light' | 'dark' = 'light',
  pages: PageBrowser = browser,
): Promise<void> {
  if (!isWanted(name)) return
  const page = await pages.open(hash, { width: 1360, height: 850, colorScheme, isWatched: false })
  await ready(page)
  // Wait until nothing moves: until two consecutive pictures are equal.
  let png = await page.screenshot(pictureOptions)
  for (let tries = 0; tries < 20; tries++) {
    await page.waitForTimeout(250)
    const next = await page.screenshot(pictureOptions)
    if (next.equals(png)) break
    png = next
  }
  const webp = await webpOf(page, png)
  writeFileSync(join(images, `console-${name}.webp`), webp)
  console.log(`console-${name}.webp: ${Math.round(webp.length / 1024)} KiB`)
  await page.close()
}

/** Converts a PNG to WebP in Chromium. */
async function webpOf(page: Page, png: Buffer): Promise<Buffer> {
  const url = await page.evaluate(
    async ([base64, chosen]) => {
      const image = new Image()
      image.src = `data:image/png;base64,${base64}`
      await image.decode()
      const canvas = document.createElement('canvas')
      canvas.width = image.width
      canvas.height = image.height
      canvas.getContext('2d')!.drawImage(image, 0, 0)
      return canvas.toDataURL('image/webp', chosen)
    },
    [png.toString('base64'), quality] as const,
  )
  return Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
}

/** Stores the demo's data. */
async function storeDemo(): Promise<Stored> {
  const bytes = new Int8Array(readFileSync(join(data, 'wordnet-glosses.i8')))
  const lines = readFileSync(join(data, 'wordnet-glosses.jsonl'), 'utf8').trimEnd().split('\n')
  const vectors = lines.map((line, row) => {
    const { text, attributes } = JSON.parse(line) as Gloss
    const vector = Array.from(bytes.subarray(row * dimension, (row + 1) * dimension))
    return { vector, payload: { content_type: 'Text', content: text, attributes } }
  })
  const answer = await send(browser.service.httpUrl, 'POST', 'points/batch', { vectors })
  const { point_ids } = (await answer.json()) as { readonly point_ids: readonly string[] }
  await send(browser.service.httpUrl, 'PUT', 'collections/shop', { dimension: 4 })
  await send(browser.service.httpUrl, 'PUT', 'collections/glosses-2026', { dimension })
  await send(browser.service.httpUrl, 'POST', 'collections/glosses-2026/points/batch', {
    vectors: vectors.slice(0, 800),
  })
  await send(browser.service.httpUrl, 'PUT', 'aliases', { set: { glosses: 'glosses-2026' } })
  const index = vectors.findIndex(({ payload }) => payload.content.startsWith('dolphin:'))
  const judgements = Object.entries(answers).map(([name, answer]) => {
    const { vector } = JSON.parse(readFileSync(join(data, `../queries/${name}.json`), 'utf8')) as {
      readonly vector: readonly number[]
    }
    const relevant = vectors.flatMap(({ payload }, at) =>
      answer.test(payload.content) ? [[point_ids[at], 1] as const] : [],
    )
    const words = name.replace('-', ' ')
    return JSON.stringify({ words, vector, relevant: Object.fromEntries(relevant) })
  })
  return { id: point_ids[index]!, judgements: judgements.join('\n') }
}

async function send(url: string, method: string, path: string, body: unknown): Promise<Response> {
  const response = await fetch(`${url}/${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response
}
