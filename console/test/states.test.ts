import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { until } from '../../test/support/until.ts'
import { type ConsoleBrowser, glosses, missingChromium, startConsole, storeGlosses } from './browser.ts'

/** A PNG of one pixel. */
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
/** Has no dot, so that it can also be an attribute name. */
const script = `document['title']='hacked'`
const markup = `"><img src=x onerror="${script}"><script>${script}</script>`

describe('stored content', { skip: missingChromium }, () => {
  it('is never interpreted as HTML or script in any view', async () => {
    await using console = await startConsole()
    const [id] = await insert(console, [
      {
        content_type: 'Text',
        content: markup,
        attributes: {
          [markup]: markup,
          link: `javascript:${script}`,
          map: { [`a${markup}`]: [markup] },
        },
      },
      {
        content_type: 'Image',
        content: `data:text/html,<script>${script}</script>`,
        attributes: { kind: markup },
      },
      { content_type: 'Image', content: `javascript:${script}` },
    ])
    for (const hash of [`#/search?id=${id}`, `#/search?id=${id}&as=cards`, '#/points', `#/points?id=${id}`]) {
      const page = await console.open(hash)
      await page.getByText('onerror').first().waitFor()
      assert.equal(await page.locator('main img, main script, main iframe, dialog img').count(), 0, hash)
      assert.doesNotMatch(await page.title(), /hacked/)
      await page.close()
    }
    const page = await console.open('#/points')
    await page.locator('.facet', { hasText: 'onerror' }).first().click()
    await page.locator('.chip', { hasText: 'onerror' }).waitFor()
    assert.equal(await page.locator('main img').count(), 0)
    assert.deepEqual(console.faults, [])
  })

  it('is shown as an image if it is one, and loaded from another origin only if the service allows it', async () => {
    let asked = 0
    await using images = createServer((request, response) => {
      asked++
      assert.equal(request.headers.referer, undefined)
      response.setHeader('content-type', 'image/png').end(Buffer.from(pixel, 'base64'))
    })
    await new Promise<void>((resolve) => images.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(images.address() as AddressInfo).port}`
    const payloads = [
      { content_type: 'Image', content: `data:image/png;base64,${pixel}` },
      { content_type: 'Image', content: `${origin}/a.png` },
      { content_type: 'Text', content: `${origin}/text.png` },
    ]
    {
      await using console = await startConsole()
      await insert(console, payloads)
      const page = await console.open('#/points')
      await page.getByText(`CONSOLE_IMAGE_ORIGINS does not include ${origin}`).waitFor()
      assert.equal(await page.locator('.content-image').count(), 1)
      assert.deepEqual(console.faults, [])
    }
    assert.equal(asked, 0)
    {
      await using console = await startConsole({ CONSOLE_IMAGE_ORIGINS: origin })
      await insert(console, payloads)
      const policy = (await fetch(`${console.service.httpUrl}/console/`)).headers.get(
        'content-security-policy',
      )
      assert.match(policy!, new RegExp(`img-src 'self' data: blob: ${origin};`))
      // This page may request the image from the other origin, so requests are not watched.
      const page = await console.open('#/points', { isWatched: false })
      await page.waitForFunction(
        () =>
          [...document.querySelectorAll<HTMLImageElement>('.content-image')].filter(
            ({ complete, naturalWidth }) => complete && naturalWidth === 1,
          ).length === 2,
      )
      assert.deepEqual(console.faults, [])
    }
    assert.equal(asked, 1)
  })
})

describe('the console when something is missing', { skip: missingChromium }, () => {
  it('reports that the server does not respond, and recovers when it does', async () => {
    await using console = await startConsole()
    const [id] = await storeGlosses(console.service, glosses(20))
    const page = await console.open('#/collections')
    await page.getByRole('row', { name: /default/ }).waitFor()
    await page.evaluate(() => new Promise((resolve) => requestIdleCallback(resolve)))
    await page
      .context()
      .route(`${console.service.httpUrl}/collections**`, (route) => route.abort('connectionrefused'))
    await page.getByText('The server does not respond. Retrying').waitFor()
    await page.getByRole('link', { name: 'Search', exact: true }).click()
    await page.getByRole('heading', { name: 'Search', level: 1 }).waitFor()
    await page.context().unroute(`${console.service.httpUrl}/collections**`)
    await page.getByText('The server does not respond. Retrying').waitFor({ state: 'detached' })
    await page.getByLabel('Id of the point').fill(id!)
    await page.getByText('10 results').waitFor()
    assert.deepEqual(console.faults, [])
  })

  it('does not report that a view could not be loaded after the user has left it', async () => {
    await using console = await startConsole()
    const page = await console.open('#/collections')
    await page.getByRole('row', { name: /default/ }).waitFor()
    let fail: () => void = () => undefined
    const failing = new Promise<void>((resolve) => {
      fail = resolve
    })
    // The map is not prefetched.
    await page.route('**/assets/map-*.js', async (route) => {
      await failing
      await route.abort('connectionrefused')
    })
    const left = page.waitForRequest('**/assets/map-*.js')
    await page.getByRole('link', { name: 'Map', exact: true }).click()
    await left
    await page.getByRole('link', { name: 'Points', exact: true }).click()
    await page.getByRole('heading', { name: 'Points', level: 1 }).waitFor()
    const failed = page.waitForEvent('requestfailed')
    fail()
    await failed
    // Two frames: time for the page to render the failure.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
    assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Points')
    // Without leaving it, the failure is reported.
    await page.getByRole('link', { name: 'Map', exact: true }).click()
    await page.getByRole('heading', { name: 'View not loaded' }).waitFor()
    assert.deepEqual(console.faults, [])
  })

  it('keeps showing an error while the page is hidden, because nothing is requested then', async () => {
    // On a busy machine, the console's own count of points can be slow.
    await using console = await startConsole({ slowQueryMs: 3_600_000 })
    await storeGlosses(console.service, glosses(20))
    const page = await console.open('#/settings')
    await page.clock.install()
    // From now on, time passes only in steps, so that no request is due when the page is hidden.
    await page.clock.pauseAt(Date.now() + 600_000)
    let answers = 0
    let isFailing = false
    await page.route('**/slow-queries', async (route) => {
      answers++
      if (isFailing) await route.fulfill({ status: 500, contentType: 'text/plain', body: 'no slow queries' })
      else await route.fallback()
    })
    await page.goto(`${console.service.httpUrl}/console/#/overview`)
    await page.reload()
    const panel = page.locator('.panel', { hasText: 'Slowest requests' })
    await until(async () => {
      // Rendering also needs timers.
      await page.clock.runFor(100)
      return await panel.getByText('No search, list, count or change by filter took').isVisible()
    })
    const periodMs = 5000
    isFailing = true
    await page.clock.runFor(periodMs)
    await panel.getByText('no slow queries').waitFor()
    await setVisibility(page, 'hidden')
    const before = answers
    await page.clock.runFor(2 * periodMs)
    assert.equal(answers, before, 'a hidden page requests nothing')
    assert.equal(await panel.getByText('no slow queries').count(), 1)
    isFailing = false
    await setVisibility(page, 'visible')
    await page.clock.runFor(periodMs)
    await panel.getByText('no slow queries').waitFor({ state: 'detached' })
    assert.deepEqual(console.faults, [])
  })

  it('reports a missing collection and a missing point, and shows why the server refuses a filter', async () => {
    await using console = await startConsole()
    await storeGlosses(console.service, glosses(20))
    const page = await console.open('#/points?c=nowhere')
    await page.getByText('There is no collection nowhere.').waitFor()
    const other = await console.open('#/search?id=00000000-0000-4000-8000-000000000000')
    await other.getByRole('alert').getByText('not found').waitFor()
    const refused = await console.open('#/points?filter={"a":{"$bad":1}}')
    await refused.getByRole('alert').getByText('$bad').first().waitFor()
    assert.deepEqual(console.faults, [])
  })

  it('links to the API reference, which works without any other host', async () => {
    await using console = await startConsole({ HTTP_API_KEY: 'a-key-of-the-docs' })
    const page = await console.open('../docs')
    await page
      .getByRole('heading', { name: /Vicinal/ })
      .first()
      .waitFor()
    await page.locator('.opblock').first().waitFor()
    assert.ok((await page.locator('.opblock').count()) > 10)
    assert.deepEqual(console.faults, [])
    // Its icon and its name are ours, and nothing on it is another project's.
    assert.equal(await page.locator('link[rel=icon]').getAttribute('href'), '/docs/static/theme/icon.svg')
    assert.equal(await page.locator('.topbar, svg title, img').count(), 0)
  })
})

/** A headless page is always visible, so this only tells the page otherwise. */
async function setVisibility(page: Page, state: DocumentVisibilityState): Promise<void> {
  await page.evaluate((value) => {
    Object.defineProperty(document, 'visibilityState', { value, configurable: true })
  }, state)
}

async function insert(
  { service }: ConsoleBrowser,
  payloads: readonly Readonly<Record<string, unknown>>[],
): Promise<readonly string[]> {
  const vectors = payloads.map((payload, index) => ({ vector: [1, index], payload }))
  const response = await fetch(`${service.httpUrl}/points/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vectors }),
  })
  assert.equal(response.status, 201)
  return ((await response.json()) as { readonly point_ids: readonly string[] }).point_ids
}
