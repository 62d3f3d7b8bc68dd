import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { apiKey } from '../../test/support/service.ts'
import {
  type ConsoleBrowser,
  glosses,
  httpKey,
  keepScreenshot,
  missingChromium,
  startConsole,
} from './browser.ts'

const kinds = ['noun', 'verb', 'adjective'] as const
const stored = glosses(1500)

async function send({ service }: ConsoleBrowser, method: string, path: string, body: unknown): Promise<void> {
  const response = await fetch(`${service.httpUrl}/${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  assert.ok(response.ok, await response.text())
}

describe('what an operator sees in the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser

  before(async () => {
    console = await startConsole({ slowQueryMs: 0, HNSW_EF: '77' })
    await send(console, 'PUT', 'collections/glosses', {})
    const vectors = stored.map(({ vector, text }, index) => ({
      vector,
      payload: {
        content_type: 'Text',
        content: text,
        attributes: { kind: kinds[index % 3]!, length: text.length },
      },
    }))
    await send(console, 'POST', 'collections/glosses/points/batch', { vectors })
    await send(console, 'POST', 'collections/glosses/points/search', {
      vector: stored[0]!.vector,
      similarity: 'Manhattan',
      limit: 7,
      filter: { kind: 'verb' },
    })
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('includes the index of the selected collection, and slow requests', async () => {
    const page = await console.open('#/overview?c=glosses')
    await page.getByRole('heading', { name: 'Index of glosses' }).waitFor()
    const figure = (name: string): Promise<string | null> =>
      page
        .locator('.facts div', { has: page.getByText(name, { exact: true }) })
        .locator('dd')
        .textContent()
    assert.deepEqual([await figure('Dimension'), await figure('Tombstones')], ['512', '0'])
    const row = page.locator('.recall-table tbody tr', { hasText: 'Cosine' })
    assert.equal(await row.locator('td').count(), 5)
    assert.match((await row.locator('td').first().textContent())!, /^(scan|graph)/)
    const slow = page.locator('.slow-table tr', { hasText: 'Manhattan · limit 7 · ef 77' })
    await slow.getByText('{"kind":"verb"}').waitFor()
    await slow.getByText('scan of matching points').waitFor()
    await slow.getByText('glosses', { exact: true }).waitFor()
    await keepScreenshot(page, 'overview-collection')
    await page.close()
  })

  it('includes every setting with its source', async () => {
    const page = await console.open('#/settings')
    await page.locator('.settings').first().waitFor()
    const row = (name: string): ReturnType<typeof page.locator> =>
      page.locator('.settings > div', { has: page.getByText(name, { exact: true }) })
    await row('HNSW_EF').getByText('77').waitFor()
    await row('HNSW_EF').getByText('default: 128').waitFor()
    await row('MAX_BUFFERED_BYTES').getByText('268435456 (256 MiB)').waitFor()
    await row('GRPC_ROOT_PASSWORD').getByText('set, hidden').waitFor()
    // Secrets that are not set: a key and a list.
    await row('HTTP_API_KEY').getByText('none', { exact: false }).first().waitFor()
    await row('CLUSTER_NATS_URL').getByText('none: one node').waitFor()
    assert.equal(await page.getByText('set, hidden').count(), 1)
    assert.ok(!(await page.content()).includes(apiKey))
    await page.getByLabel('Find a setting').fill('breadth')
    await row('RECALL_TARGET').waitFor({ state: 'detached' })
    assert.equal(await row('HNSW_EF').count(), 1)
    await page.getByLabel('Find a setting').fill('')
    await page.getByText('Changed', { exact: true }).click()
    await row('RECALL_TARGET').waitFor({ state: 'detached' })
    assert.equal(await row('HNSW_EF').count(), 1)
    await page.close()
  })

  it('includes a coloured map of a sample, with neighbours that searches find', async () => {
    const page = await console.open('#/map?c=glosses&limit=1000&colour=kind')
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.getByText('1,000 of 1,500 points, from ranges chosen at random').waitFor()
    await page.locator('.map-legend').getByText('noun').waitFor()
    const counts = await page.locator('.map-legend .number').allTextContents()
    assert.equal(
      counts.reduce((sum, text) => sum + Number(text), 0),
      1000,
    )
    // The text of the first sample stays until the second one is requested.
    const second = page.waitForRequest(/\/points\/search\/batch/)
    await page.getByRole('button', { name: 'Another sample' }).click()
    await second
    await page.getByText('1,000 of 1,500 points, from ranges chosen at random').waitFor()
    const maps = (): number => asked.filter((path) => path.endsWith('/points/search/batch')).length
    const before = maps()
    assert.ok(before > 0)
    await page.getByLabel('Colour by').selectOption('length')
    await page.locator('.map-side h2', { hasText: 'length' }).waitFor()
    assert.equal(maps(), before, 'colouring by an attribute of the sample needs no new map')
    await page.getByLabel('Find in contents').fill(stored[0]!.text.slice(0, 12))
    await page.getByText(/points? found/).waitFor()
    await page.close()
  })

  it('includes a map that works without WebGL, can be stopped, and is cached', async () => {
    const page = await console.open('#/settings')
    await page.addInitScript(() => {
      const original = HTMLCanvasElement.prototype.getContext
      Object.assign(HTMLCanvasElement.prototype, {
        getContext(this: HTMLCanvasElement, kind: string, ...rest: unknown[]) {
          return kind === 'webgl2' ? null : Reflect.apply(original, this, [kind, ...rest])
        },
      })
    })
    let asked = 0
    let isHeld = true
    await page.route('**/points/search/batch', async (route) => {
      asked += 1
      // Not only the first request: the page may also send one before it is reloaded.
      if (!isHeld) await route.fallback()
    })
    await page.goto(`${console.service.httpUrl}/console/#/map?c=glosses&limit=1000&colour=kind`)
    await page.reload()
    await page.getByText('Loading neighbours').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    isHeld = false
    await page.getByRole('button', { name: 'Redraw' }).click()
    await page.getByText('1,000 of 1,500 points, from ranges chosen at random').waitFor()
    // The points are drawn some frames after the text.
    await page.waitForFunction(
      (least) => {
        const canvas = document.querySelector<HTMLCanvasElement>('.map-canvas canvas')!
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height)
        return new Set(new Uint32Array(data.buffer)).size > least
      },
      kinds.length,
      { polling: 50 },
    )
    await page.getByLabel('Max points').selectOption('5000')
    await page.getByText('1,500 points', { exact: true }).waitFor()
    const before = asked
    await page.getByLabel('Max points').selectOption('1000')
    await page.getByText('1,000 of 1,500 points, from ranges chosen at random').waitFor()
    assert.equal(asked, before, 'the layout was cached')
    await page.close()
  })

  it('fits into a width of 320 pixels', async () => {
    for (const [view, ready] of [
      ['overview?c=glosses', '.slow-table'],
      ['map?c=glosses&limit=1000', '.map-progress button'],
      ['settings', '.settings'],
    ] as const) {
      const page = await console.open(`#/${view}`, { width: 320 })
      await page.locator(ready).first().waitFor()
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      assert.ok(overflow <= 0, `${view} is ${overflow} px too wide`)
      await page.close()
    }
  })
})

describe('a key in the console', { skip: missingChromium }, () => {
  it('is required before settings are shown', async () => {
    await using console = await startConsole({ HTTP_API_KEY: httpKey })
    const page = await console.open('#/settings')
    await page.getByLabel(/key/i).first().fill(httpKey)
    await page.keyboard.press('Enter')
    await page.locator('.settings').first().waitFor()
    assert.ok(!(await page.locator('.settings').allTextContents()).join('').includes(httpKey))
    await page.close()
  })
})
