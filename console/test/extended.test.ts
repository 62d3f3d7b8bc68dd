import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import {
  type ConsoleBrowser,
  clickAndHear,
  drawAroundPoints,
  glosses,
  keepScreenshot,
  missingChromium,
  pictureOptions,
  startConsole,
} from './browser.ts'

const kinds = ['noun', 'verb', 'adjective'] as const
const stored = glosses(240)
/** How far the clock of a page jumps when it is paused: it must not be past, even on a slow and busy machine. */
const laterMs = 600_000

interface Answer {
  readonly [name: string]: unknown
}

describe('attributes in the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser

  before(async () => {
    console = await startConsole()
    const vectors = stored.map(({ vector, text }, index) => ({
      vector,
      payload: {
        content_type: 'Text',
        content: text,
        attributes: { kind: kinds[index % 3]!, length: text.length },
      },
    }))
    await post(console, 'points/batch', { vectors })
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('filter a list after a click on a value, and the address keeps the filter', async () => {
    const page = await console.open('#/points')
    await page.getByText('240 points', { exact: true }).waitFor()
    await page.locator('.facets').getByRole('button', { name: /^verb/ }).click()
    await page.getByText('80 points match').waitFor()
    await page.locator('.chip', { hasText: 'kind is verb' }).waitFor()
    await keepScreenshot(page, 'points')
    await page.getByRole('button', { name: 'Show more' }).click()
    await page.getByText('80 shown').waitFor({ state: 'detached' })
    await page.waitForFunction(() => document.querySelectorAll('.point-row').length === 80)
    const again = await console.open(new URL(page.url()).hash)
    await again.getByText('80 points match').waitFor()
    await page.getByRole('button', { name: 'Remove condition' }).click()
    await page.getByText('240 points', { exact: true }).waitFor()
    await page.close()
    await again.close()
  })

  it('are compared with a whole number beyond 2^53, which has an exponent in a request', async () => {
    const page = await console.open(`#/points?filter=${encodeURIComponent('{"length":{"$lt":1e18}}')}`)
    await page.getByText('240 points match').waitFor()
    await page.close()
  })

  it('keep their place while the page scrolls to them, so that no click misses', async () => {
    const page = await console.open('#/points')
    await page.locator('.facets').getByRole('button', { name: /^verb/ }).waitFor()
    const more = page.getByRole('button', { name: 'Show more' })
    const fromTop = (): Promise<number> =>
      more.evaluate((button) => button.getBoundingClientRect().y + scrollY)
    const before = await fromTop()
    await more.scrollIntoViewIfNeeded()
    // Two frames: the first one lays out what has come into view.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
    assert.equal(await fromTop(), before)
    await page.close()
  })

  it('are filtered by chips or by JSON, which stay in sync', async () => {
    const page = await console.open('#/points')
    await page.getByRole('button', { name: 'Add filter' }).click()
    await page.getByLabel('Attribute').fill('length')
    await page.getByLabel('Comparison').selectOption('$gte')
    await page.getByRole('textbox', { name: 'Value' }).fill('100')
    await page.getByRole('button', { name: 'Add', exact: true }).last().click()
    const long = stored.filter(({ text }) => text.length >= 100).length
    await page.getByText(`${long} points match`).waitFor()
    await page.getByRole('button', { name: 'JSON' }).click()
    await page.waitForFunction(
      () => document.querySelector('.json-editor')?.shadowRoot?.textContent?.includes('$gte') === true,
    )
    await write(page, 'Filter as JSON', '{"length": {"$lt": 100}}')
    await page.getByText(`${240 - long} points match`).waitFor()
    await page.locator('.chip', { hasText: 'length < 100' }).waitFor()
    await write(page, 'Filter as JSON', '{"length": {"$lesser": 100}}')
    await page.getByRole('alert').getByText('$lesser').waitFor()
    await page.close()
  })

  it('are shown with the results of a search, together with its profile and recall', async () => {
    const { points } = await post(console, 'points/list', { limit: 1 })
    const [{ id }] = points as readonly [{ readonly id: string }]
    const page = await console.open(`#/search?id=${id}&compare=1&filter={"kind":"noun"}`)
    await page.getByText('10 results').waitFor()
    await page.locator('.recall').waitFor()
    const matched = await page.locator('.result .tag.matched').allTextContents()
    assert.deepEqual(new Set(matched), new Set(['kind: noun']))
    assert.equal(matched.length, 10)
    await page.getByText('How it was answered').waitFor()
    await keepScreenshot(page, 'search-filtered')
    await page.close()
  })

  it('are edited, unless somebody else has changed the point meanwhile', async () => {
    const { points } = await post(console, 'points/list', { limit: 1 })
    const [{ id }] = points as readonly [{ readonly id: string }]
    const page = await console.open(`#/points?id=${id}`)
    const edit = async (text: string): Promise<void> => {
      await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'JSON', exact: true }).click()
      await write(page, 'Attributes as JSON', text)
    }
    const save = page.getByRole('button', { name: 'Save', exact: true })
    await edit('{"kind": "noun", "note": "seen"}')
    await clickAndHear(save, 'Saved the changes.')
    await page.getByRole('dialog').getByRole('row', { name: 'note seen text' }).waitFor()
    const point = (await (await fetch(`${console.service.httpUrl}/points/${id}`)).json()) as {
      readonly payload: { readonly attributes: Answer }
    }
    assert.deepEqual(point.payload.attributes, { kind: 'noun', note: 'seen' })
    await fetch(`${console.service.httpUrl}/points/${id}`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ set: { note: 'changed by another' } }),
    })
    await edit('{"kind": "noun", "note": "mine"}')
    await save.click()
    await page
      .getByRole('dialog')
      .getByRole('alert')
      .getByText(/version/)
      .waitFor()
    await page.close()
  })

  it('are edited in a table with a type for each value', async () => {
    const id = crypto.randomUUID()
    const payload = { content_type: 'Text', content: 'before', attributes: { kind: 'noun', length: 6 } }
    await post(console, 'points', { id, vector: stored[0]!.vector, payload })
    const page = await console.open(`#/points?id=${id}`)
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('row', { name: 'length 6 number' }).waitFor()
    await dialog.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByLabel('Content', { exact: true }).fill('after')
    await dialog.getByLabel('Value of length').fill('five')
    await dialog.getByRole('button', { name: 'Save', exact: true }).click()
    await dialog.getByText('length is not a number: five').waitFor()
    await dialog.getByLabel('Value of length').fill('5')
    await dialog.getByRole('button', { name: 'Remove kind' }).click()
    await dialog.getByRole('button', { name: 'Add attribute' }).click()
    await dialog.getByLabel('Name').last().fill('since')
    await dialog.getByLabel('Type of since').selectOption('date and time')
    await dialog.getByLabel('Value of since').fill('2026-01-31')
    await clickAndHear(dialog.getByRole('button', { name: 'Save', exact: true }), 'Saved the changes.')
    await dialog.getByRole('row', { name: 'length 5 number' }).waitFor()
    await keepScreenshot(page, 'point')
    const { payload: changed } = (await (await fetch(`${console.service.httpUrl}/points/${id}`)).json()) as {
      readonly payload: unknown
    }
    assert.deepEqual(changed, {
      content_type: 'Text',
      content: 'after',
      attributes: { length: 5, since: { $date: '2026-01-31T00:00:00Z' } },
    })
    await fetch(`${console.service.httpUrl}/points/${id}`, { method: 'DELETE' })
    await page.close()
  })

  it('are changed in bulk after a count, and so are points deleted', async () => {
    const page = await console.open('#/points?filter={"kind":"adjective"}')
    await page.getByText('80 points match').waitFor()
    await page.getByRole('button', { name: 'Update matching' }).click()
    await page.getByRole('button', { name: 'Add attribute' }).click()
    await page.getByLabel('Name').fill('checked')
    await page.getByLabel('Type of checked').selectOption('true or false')
    await page.getByLabel('Value of checked').fill('true')
    await page.getByRole('button', { name: 'Count first' }).click()
    await page.getByText('Change 80 points?').waitFor()
    assert.equal((await post(console, 'points/count', { filter: { checked: true } })).count, 0)
    await clickAndHear(page.getByRole('button', { name: 'Change 80 points' }), 'Changed 80 points.')
    assert.equal((await post(console, 'points/count', { filter: { checked: true } })).count, 80)
    await page.getByRole('button', { name: 'Delete matching' }).click()
    await page.getByRole('button', { name: 'Count first' }).click()
    await clickAndHear(page.getByRole('button', { name: 'Delete 80 points' }), 'Deleted 80 points.')
    assert.equal((await post(console, 'points/count', {})).count, 160)
    await page.close()
  })

  it('colour a map of the collection', async () => {
    const page = await console.open('#/map?colour=kind')
    await page.getByText('160 points', { exact: true }).waitFor()
    await page.locator('.map-legend').getByText('noun').waitFor()
    await keepScreenshot(page, 'map')
    assert.ok((await coloursOf(page.locator('.map-canvas canvas').first())) >= 2)
    await drawAroundPoints(page)
    await page.getByText(/points selected/).waitFor()
    await page.close()
  })

  it('follow a user who is faster than the browser draws', async () => {
    const page = await console.open('#/map')
    await page.getByText('160 points', { exact: true }).waitFor()
    await page.clock.install()
    await page.clock.pauseAt(Date.now() + laterMs)
    await drawAroundPoints(page)
    await page.getByText(/points selected/).waitFor()
    await page.clock.resume()
    await page.close()
  })
})

/**
 * Replaces the text of an editor with key presses, as a user does. `fill` would make the browser keep the colours of
 * the old text in inline styles, which the page's content security policy forbids.
 */
async function write(page: Page, label: string, text: string): Promise<void> {
  await page.getByLabel(label).focus()
  await page.keyboard.press('Control+A')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
}

/** The number of different colours in a screenshot of a canvas. */
async function coloursOf(canvas: Locator): Promise<number> {
  const png = (await canvas.screenshot(pictureOptions)).toString('base64')
  return await canvas.evaluate(async (_element, data) => {
    const image = new Image()
    image.src = `data:image/png;base64,${data}`
    await image.decode()
    const copy = document.createElement('canvas')
    copy.width = image.width
    copy.height = image.height
    const context = copy.getContext('2d')!
    context.drawImage(image, 0, 0)
    const pixels = new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer)
    return new Set(pixels).size
  }, png)
}

async function send({ service }: ConsoleBrowser, path: string, body: unknown): Promise<Response> {
  return await fetch(`${service.httpUrl}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

async function post(console: ConsoleBrowser, path: string, body: unknown): Promise<Answer> {
  return (await (await send(console, path, body)).json()) as Answer
}
