import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { type ConsoleBrowser, hear, keepScreenshot, missingChromium, startConsole } from './browser.ts'

/** What a new user tried, and what looked wrong or did nothing. */
const longName = 'w'.repeat(63)

describe('the first use of the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let ids: readonly string[]
  /** More attributes than one request for facets may have. */
  const further = Array.from({ length: 20 }, (_, index) => `extra_${String(index).padStart(2, '0')}`)

  before(async () => {
    console = await startConsole({ slowQueryMs: 0 })
    const vectors = Array.from({ length: 30 }, (_, index) => ({
      vector: [10, index, 1],
      payload: {
        content_type: 'Text',
        content: `point ${index}`,
        attributes: {
          kind: index % 2 === 0 ? 'even' : 'odd',
          zip: String(10_000 + (index % 3)),
          created: { $date: `2026-${String(1 + (index % 12)).padStart(2, '0')}-01T08:30:00Z` },
          about: ['a', 'b'],
          at: { $geo: { lat: 50, lon: 8 } },
          ...Object.fromEntries(further.map((name) => [name, `of ${name}`])),
        },
      },
    }))
    await send('PUT', 'collections/shop', {})
    await send('PUT', `collections/${longName}`, {})
    await send('POST', `collections/${longName}/points/list`, { limit: 1 })
    const answer = await send('POST', 'collections/shop/points/batch', { vectors })
    ids = ((await answer.json()) as { readonly point_ids: readonly string[] }).point_ids
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('logs no error in any view, and cuts nothing off, on a screen and on a phone', async () => {
    const views = [
      'overview',
      'search',
      `search?c=${longName}`,
      `search?id=${ids[0]}`,
      'points',
      `points?id=${ids[0]}`,
      'map',
      'import',
      'collections',
      'snapshots',
      'settings',
      'requests',
      'cluster',
    ]
    for (const width of [1280, 390]) {
      const page = await console.open('#/overview?c=shop', { width })
      for (const view of views) {
        const place = view.includes('c=') ? '' : view.includes('?') ? '&c=shop' : '?c=shop'
        await page.goto(`${console.service.httpUrl}/console/#/${view}${place}`)
        await page.reload()
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.waitForLoadState('networkidle')
        assert.deepEqual(await cutOff(page), [], `${view} at ${width} px`)
      }
      await page.goto(`${console.service.httpUrl}/docs`)
      await page.locator('.opblock').first().waitFor()
      await page.close()
    }
    assert.deepEqual(console.logged, [])
  })

  it('lists every attribute with its values', async () => {
    const page = await console.open('#/points?c=shop')
    const sections = page.locator('.facet-section')
    await sections.first().waitFor()
    const names = await sections.locator('h2').allTextContents()
    assert.deepEqual([...names].sort(), ['about', 'at', 'created', ...further, 'kind', 'zip'].sort())
    // The last one is closed and shows nothing; its values are loaded when it is opened.
    const last = sections.filter({ hasText: 'zip' })
    assert.equal(await last.getAttribute('open'), null)
    assert.equal(await last.locator('.facet').count(), 0)
    await last.locator('summary').click()
    await last.getByRole('button', { name: /^10001/ }).waitFor()
    assert.notEqual(await last.getAttribute('open'), null)
    await last.getByRole('button', { name: /^10001/ }).click()
    // The value keeps its type, text, and the attribute stays open with the values that match.
    await page.getByText('10 points match').waitFor()
    await page.locator('.chip', { hasText: 'zip is "10001"' }).waitFor()
    await last.getByRole('button', { name: /^10000/ }).waitFor({ state: 'detached' })
    assert.notEqual(await last.getAttribute('open'), null)
    await last.locator('summary').click()
    await last.locator('.facet').first().waitFor({ state: 'hidden' })
    await page.close()
  })

  it('compares dates as dates, and shows conditions and values in plain words', async () => {
    const page = await console.open('#/points?c=shop')
    await page.locator('.point-row').first().waitFor()
    await addCondition(page, 'created', '$gte', '2026-06-01')
    await page.getByText('15 points match').waitFor()
    await page.locator('.chip', { hasText: 'created ≥ 2026-06-01' }).waitFor()
    await page.getByText('created: 2026-06-01 08:30 UTC').first().waitFor()
    await page.getByText('about: a, b').first().waitFor()
    await page.getByText('at: 50, 8').first().waitFor()
    await addCondition(page, 'zip', '$eq', '10001')
    await page.locator('.chip', { hasText: 'zip is "10001"' }).waitFor()
    await page.getByText('4 points match').waitFor()
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await fillCondition(page, 'created', '$lt', 'summer')
    await page.getByRole('alert').getByText('created is not a date and time such as').waitFor()
    await keepScreenshot(page, 'first-use-filter')
    await page.close()
  })

  it('offers to clear the filter if no point matches it, and types stay known', async () => {
    for (const hash of ['#/points?c=shop', `#/search?c=shop&id=${ids[0]}`]) {
      const page = await console.open(hash)
      await page.locator('.tags').first().waitFor()
      await addCondition(page, 'zip', '$eq', '99999')
      await page.getByText('No points match the filter.').waitFor()
      assert.equal(await page.getByRole('main').getByRole('link', { name: 'Import points' }).count(), 0)
      await addCondition(page, 'zip', '$eq', '10001')
      await page.locator('.tags').first().waitFor()
      await addCondition(page, 'zip', '$eq', '99999')
      await page.getByRole('button', { name: 'Clear the filter' }).click()
      await page.locator('.tags').first().waitFor()
      assert.equal(await page.locator('.chip').count(), 0)
      await page.close()
    }
    const map = await console.open('#/map?c=shop&filter={"kind":"neither"}')
    await map.getByRole('button', { name: 'Clear the filter' }).click()
    await map.getByText('30 points', { exact: true }).waitFor()
    await map.close()
  })

  it('opens a point by a click on its row, but not by a click on a link or the end of a selection', async () => {
    const page = await console.open('#/points?c=shop')
    const row = page.locator('.point-row', { hasText: 'point 7' })
    await row.getByText('point 7', { exact: true }).click()
    await page.getByRole('dialog').getByText('point 7', { exact: true }).waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    const { x, y, height } = (await row.getByText('point 7', { exact: true }).boundingBox())!
    await page.mouse.move(x + 1, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + 40, y + height / 2, { steps: 4 })
    await page.mouse.up()
    assert.notEqual(await page.evaluate(() => getSelection()?.toString()), '')
    assert.equal(await page.getByRole('dialog').count(), 0)
    await row.getByRole('link', { name: 'Similar' }).click()
    await page.getByText('10 results').waitFor()
    assert.equal(await page.getByRole('dialog').count(), 0)
    await page
      .locator('.result')
      .nth(2)
      .locator('.tags')
      .click({ position: { x: 2, y: 2 } })
    await page.getByRole('dialog').waitFor()
    await page.close()
  })

  it('draws the longest bar for the nearest point', async () => {
    const page = await console.open(`#/search?c=shop&id=${ids[0]}&metric=Euclidean`)
    await page.getByText('10 results').waitFor()
    const widths = await page
      .locator('.result-distance .bar span')
      .evaluateAll((bars) => bars.map((bar) => Number.parseFloat((bar as HTMLElement).style.width)))
    assert.equal(widths[0], 100)
    assert.deepEqual(
      widths,
      [...widths].sort((a, b) => b - a),
    )
    assert.ok(widths.at(-1)! > 0 && widths.at(-1)! < widths[0]!)
    await page.close()
  })

  it('tells that ef has no effect where every point is compared', async () => {
    const page = await console.open(`#/search?c=shop&id=${ids[0]}`)
    await page
      .getByText('ef has no effect on this search: it compares every point, and misses none.')
      .waitFor()
    await page.close()
  })

  it('says that a collection exists instead of reporting that it was created', async () => {
    const page = await console.open('#/collections')
    await page.getByRole('button', { name: 'Create collection' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('shop')
    await dialog.getByRole('button', { name: 'Create', exact: true }).click()
    await dialog.getByText('The collection shop already exists. Nothing was changed.').waitFor()
    assert.deepEqual(await page.evaluate(() => window.shownMessages), [])
    await dialog.getByLabel('Name').fill('shop-2')
    await dialog.getByRole('button', { name: 'Create', exact: true }).click()
    await hear(page, 'Created shop-2.')
    await page.close()
  })

  it('counts all collections in the memory and the index of the overview', async () => {
    const page = await console.open('#/overview')
    await page.getByRole('heading', { name: 'Index of shop' }).waitFor()
    const memory = page.locator('.figure', { hasText: 'Memory' }).locator('.figure-note')
    await memory.getByText(/^points \d/).waitFor()
    assert.doesNotMatch((await memory.textContent())!, /points 0 B/)
    const row = page.locator('.collection-list tr', { hasText: 'shop' }).first()
    await row.locator('td[data-label=Memory]', { hasText: /[1-9]/ }).waitFor()
    await page.close()
  })

  it('exports the points that match, as JSON lines and as CSV, and stops on an error', async () => {
    const page = await console.open('#/points?c=shop&filter={"kind":"odd"}')
    // A headless browser cannot ask where to save.
    await page.evaluate(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'))
    await page.getByRole('button', { name: 'Export matching' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('15 points of shop that match the filter.').waitFor()
    const exported = async (): Promise<string> => {
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        dialog.getByRole('button', { name: 'Export', exact: true }).click(),
      ])
      await dialog.getByText(`Saved 15 points to ${file.suggestedFilename()}.`).waitFor()
      return readFileSync(await file.path(), 'utf8')
    }
    const lines = (await exported()).trimEnd().split('\n')
    const points = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    assert.deepEqual(
      points.map(({ id }) => id),
      ids.filter((_, index) => index % 2 === 1),
    )
    assert.deepEqual(points[0]!.vector, [10, 1, 1])
    await dialog.getByText('CSV', { exact: true }).click()
    await dialog.getByText('With vectors').click()
    const rows = (await exported()).trimEnd().split('\n')
    assert.equal(rows.length, 16)
    assert.match(rows[0]!, /^id,content_type,content,expires_at,about,at,created,extra_00,.*,kind,zip$/)
    assert.match(rows[1]!, /,point 1,,"\[""a"",""b""\]",/)
    await page.route('**/points/list', (route) => route.fulfill({ status: 500, body: 'out of order' }))
    await dialog.getByRole('button', { name: 'Export', exact: true }).click()
    await dialog.getByRole('alert').getByText('out of order').waitFor()
    await page.close()
  })

  it('sends any request, shows the answer, and asks before one that may delete', async () => {
    const page = await console.open('#/requests?c=shop')
    await page.getByLabel('Example').selectOption('Count points')
    await page.waitForFunction(
      () => document.querySelector('.json-editor')?.shadowRoot?.textContent?.includes('filter') === true,
    )
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    const answer = page.getByLabel('the answer', { exact: true })
    await answer.getByText('"count": 30').waitFor()
    await page.getByText('200 OK').waitFor()
    await keepScreenshot(page, 'requests')
    // The address holds the request, and only the button sends it.
    const again = await console.open(new URL(page.url()).hash)
    await again.getByText('No request has been sent yet.').waitFor()
    assert.equal(await again.getByLabel('Path').inputValue(), '/collections/shop/points/count')
    await again.close()
    await page.getByLabel('Path').fill('//example.com/collections')
    await page.getByLabel('Method').selectOption('GET')
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByText('404 Not Found').waitFor()
    await page.getByLabel('Path').fill(`/collections/shop/points/${ids[29]}`)
    await page.getByLabel('Method').selectOption('DELETE')
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    const asked = page.getByRole('dialog')
    await asked.getByText('This request may change or delete what is stored.').waitFor()
    await asked.getByRole('button', { name: 'Cancel' }).click()
    await asked.waitFor({ state: 'detached' })
    assert.equal((await fetch(`${console.service.httpUrl}/collections/shop/points/${ids[29]}`)).status, 200)
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await asked.getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByText('204 No Content').waitFor()
    assert.equal((await fetch(`${console.service.httpUrl}/collections/shop/points/${ids[29]}`)).status, 404)
    await page.close()
  })

  it('has one clock, of 24 hours, whatever the language of the browser', async () => {
    const page = await console.open('#/settings')
    const since = page.locator('.rows div', { hasText: 'Running since' }).locator('dd')
    await since.getByText(/\d\d:\d\d:\d\d$/).waitFor()
    assert.equal(await page.evaluate(() => navigator.language), 'en-US')
    assert.doesNotMatch((await since.textContent())!, /[AP]M/)
    await page.close()
  })

  async function send(method: string, path: string, body: unknown): Promise<Response> {
    const response = await fetch(`${console.service.httpUrl}/${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    if (!response.ok) assert.fail(await response.text())
    return response
  }
})

async function addCondition(page: Page, path: string, operator: string, value: string): Promise<void> {
  await page
    .getByRole('button', { name: /^Add( filter)?$/ })
    .first()
    .click()
  await fillCondition(page, path, operator, value)
}

async function fillCondition(page: Page, path: string, operator: string, value: string): Promise<void> {
  const form = page.locator('.condition-form')
  await form.getByLabel('Attribute').fill(path)
  await form.getByLabel('Comparison').selectOption(operator)
  await form.getByRole('textbox', { name: 'Value' }).fill(value)
  await form.getByRole('button', { name: 'Add' }).click()
}

/** The elements of the page that reach beyond its right edge, also inside a part that scrolls, except for code. */
async function cutOff(page: Page): Promise<readonly string[]> {
  return await page.evaluate(() =>
    [...document.querySelectorAll('main *:not(pre, pre *, canvas), dialog *')]
      .filter((element) => {
        const { right, width } = element.getBoundingClientRect()
        return width > 0 && right > innerWidth + 1
      })
      .map((element) => `${element.tagName} ${element.className} ${element.textContent?.slice(0, 30)}`),
  )
}
