import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  type ConsoleBrowser,
  clickAndHear,
  glosses,
  keepScreenshot,
  missingChromium,
  startConsole,
  storeGlosses,
} from './browser.ts'

const stored = glosses(300)

describe('the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let ids: readonly string[]
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-console-'))

  before(async () => {
    console = await startConsole()
    ids = await storeGlosses(console.service, stored)
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
    // There were no requests to other hosts, no exceptions and no violations of the content security policy.
    assert.deepEqual(console.faults, [])
  })

  it('shows the contents and the activity of the server', async () => {
    const page = await console.open('')
    await page.getByText('Everything is in order.').waitFor()
    await page.locator('.figure', { hasText: 'Points' }).getByText('300', { exact: true }).waitFor()
    await page
      .locator('.collection-list td[data-label=Dimension]')
      .getByText('512', { exact: true })
      .waitFor()
    // Wait until uPlot has drawn a chart.
    await page.locator('.chart canvas').first().waitFor()
    await keepScreenshot(page, 'overview')
    await page.close()
  })

  it('finds the nearest points to a point, under each metric', async () => {
    const page = await console.open(`#/search?id=${ids[7]}`)
    for (const metric of ['Cosine', 'Euclidean', 'Manhattan', 'Hamming']) {
      await page.getByLabel('Metric').selectOption(metric)
      const expected = await nearest(console, ids[7]!, metric)
      await page.waitForFunction((texts) => {
        const shown = [...document.querySelectorAll('.results .content')].map(
          ({ textContent }) => textContent,
        )
        return JSON.stringify(shown) === JSON.stringify(texts)
      }, expected)
    }
    await keepScreenshot(page, 'search')
    await page.close()
  })

  it('keeps the query in the address, and restores it from there', async () => {
    const page = await console.open('#/search')
    await page.getByText('Near a vector').click()
    await page.getByLabel('Vector', { exact: true }).fill(JSON.stringify(stored[3]!.vector))
    await page.getByLabel('Limit').fill('4')
    await page.getByText('4 results').waitFor()
    const texts = await page.locator('.results .content').allTextContents()
    assert.equal(texts[0], stored[3]!.text)
    const again = await console.open(new URL(page.url()).hash)
    await again.getByText('4 results').waitFor()
    assert.deepEqual(await again.locator('.results .content').allTextContents(), texts)
    await page.close()
    await again.close()
  })

  it('explains what is wrong with a query instead of sending it', async () => {
    const page = await console.open('#/search?by=vector&vector=1,2,x')
    await page.getByText('Number 3 is not a number: x').waitFor()
    await page.getByLabel('Vector', { exact: true }).fill('1 2 3')
    await page.getByText('This vector has 3 numbers; the collection needs 512.').waitFor()
    await page.close()
  })

  it('tries several values of ef and shows how long each took', async () => {
    const page = await console.open(`#/search?id=${ids[0]}&limit=5`)
    await page.locator('.tries tbody tr').waitFor()
    await page.getByLabel('ef', { exact: true }).fill('5')
    await page.locator('.tries tbody tr').nth(1).waitFor()
    assert.match(page.url(), /ef=48/)
    assert.equal(await page.locator('.tries tr.current td').first().textContent(), '48')
    await page.close()
  })

  it('opens a point, and deletes it only after confirmation', async () => {
    const [id] = await storeGlosses(console.service, [{ ...stored[0]!, text: 'to be deleted' }])
    const page = await console.open(`#/points?id=${id}`)
    await page.getByRole('dialog').getByText('to be deleted').waitFor()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    assert.equal((await getPoint(console, id!)).status, 200)
    await clickAndHear(page.getByRole('button', { name: 'Delete point' }), 'Deleted the point.')
    assert.equal((await getPoint(console, id!)).status, 404)
    await page.close()
  })

  it('inserts a point', async () => {
    const page = await console.open('#/points')
    await page.getByRole('button', { name: 'Insert point' }).click()
    await page.getByLabel('Vector', { exact: true }).fill(stored[1]!.vector.join(' '))
    await page.getByLabel('Content', { exact: true }).fill('typed by hand')
    await clickAndHear(page.getByRole('button', { name: 'Insert', exact: true }), 'Stored the point.')
    const id = /id=([\da-f-]{36})/.exec(page.url())![1]!
    const point = (await (await getPoint(console, id)).json()) as {
      readonly payload: { readonly content: string }
    }
    assert.equal(point.payload.content, 'typed by hand')
    await fetch(`${console.service.httpUrl}/points/${id}`, { method: 'DELETE' })
    await page.close()
  })

  it('shows content as plain text, even if it looks like HTML', async () => {
    const hostile = '<img src="https://example.com/x.png" onerror="alert(1)"><b>bold</b>'
    const [id] = await storeGlosses(console.service, [{ ...stored[0]!, text: hostile }])
    const page = await console.open(`#/points?id=${id}`)
    await page.getByRole('dialog').getByText(hostile).waitFor()
    assert.equal(await page.locator('dialog img, dialog b').count(), 0)
    await page.close()
  })

  it('creates a collection, gives it an alias and deletes it', async () => {
    const page = await console.open('#/collections')
    await page.getByRole('button', { name: 'Create collection' }).click()
    await page.getByLabel('Name').fill('books')
    await page.getByLabel('Dimension').fill('3')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    const row = page.getByRole('row', { name: /books/ })
    await row.getByRole('button', { name: 'Add alias' }).click()
    await page.getByRole('textbox', { name: 'Alias' }).fill('library')
    await page.getByRole('button', { name: 'Set alias' }).click()
    await row.getByText('library').waitFor()
    await row.getByRole('button', { name: 'Delete books' }).click()
    const confirm = page.getByRole('button', { name: 'Delete collection' })
    assert.equal(await confirm.isDisabled(), true)
    await page.getByLabel('Type books to confirm').fill('books')
    await clickAndHear(confirm, 'Deleted books.')
    await row.waitFor({ state: 'detached' })
    await page.close()
  })

  it('downloads a snapshot', async () => {
    const page = await console.open('#/snapshots')
    // A headless browser cannot ask where to save.
    await page.evaluate(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'))
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download a snapshot of default' }).click(),
    ])
    assert.match(download.suggestedFilename(), /^vicinal-.+\.snapshot$/)
    const path = join(directory, 'a.snapshot')
    await download.saveAs(path)
    assert.ok(statSync(path).size > 300 * 512 * 4)
    assert.equal(readFileSync(path).subarray(0, 8).toString('latin1'), 'VICNSNAP')
    await page.getByText(/verified every byte: \d+ points of 512 dimensions/).waitFor()
    await page.close()
  })

  it('verifies a snapshot, and reports where it is damaged', async () => {
    const response = await fetch(`${console.service.httpUrl}/snapshots`, { method: 'POST' })
    const bytes = Buffer.from(await response.arrayBuffer())
    const verified = async (content: Buffer): Promise<string> => {
      const name = `${content.length}-${content[content.length >> 1]}.snapshot`
      writeFileSync(join(directory, name), content)
      await page.locator('input[type=file]').setInputFiles(join(directory, name))
      const text = page.locator('.verify [role=status], [role=alert]', { hasText: name })
      return (await text.filter({ hasNotText: 'Reading' }).textContent()) ?? ''
    }
    const page = await console.open('#/snapshots')
    assert.match(await verified(bytes), /is intact: \d+ points of 512 dimensions/)
    const middle = bytes.length >> 1
    const damaged = Buffer.from(bytes)
    damaged[middle] = damaged[middle]! ^ 1
    assert.match(await verified(damaged), /cannot be used\. Point \d+ of \d+, at byte \d+, does not match/)
    assert.match(await verified(bytes.subarray(0, middle)), /It is truncated at byte/)
    assert.match(await verified(Buffer.concat([bytes, Buffer.of(0)])), /bytes after its end/)
    await keepScreenshot(page, 'snapshots')
    await page.close()
  })

  it('imports JSON lines, and lists those that it skipped', async () => {
    const lines = stored.slice(0, 20).map(({ vector, text }) => JSON.stringify({ embedding: vector, text }))
    lines[4] = '{"embedding": [1, 2], "text": "too short"}'
    lines[9] = 'not JSON'
    const path = join(directory, 'glosses.jsonl')
    writeFileSync(path, `${lines.join('\n')}\n`)
    await fetch(`${console.service.httpUrl}/collections/imported`, { method: 'PUT' })
    const page = await console.open('#/import?c=imported')
    await page.locator('input[type=file]').setInputFiles(path)
    assert.equal(await page.getByLabel('Vector').inputValue(), 'embedding')
    assert.equal(await page.getByLabel('Content', { exact: true }).inputValue(), 'text')
    await keepScreenshot(page, 'import')
    await page.getByRole('button', { name: 'Import glosses.jsonl' }).click()
    await page.getByText('Imported glosses.jsonl').waitFor()
    await page.getByText('18 points stored').waitFor()
    const left = await page.locator('.line-faults li').allTextContents()
    assert.deepEqual(
      left.map((text) => /line \d+/.exec(text)?.[0]),
      ['line 5', 'line 10'],
    )
    const answer = await fetch(`${console.service.httpUrl}/collections/imported`)
    assert.equal(((await answer.json()) as { readonly points: number }).points, 18)
    await page.close()
  })

  it('can be used with the keyboard alone', async () => {
    const page = await console.open('')
    await page.getByText('Everything is in order.').waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'main')
    await page.getByRole('link', { name: 'Collections', exact: true }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Collections', level: 1 }).waitFor()
    await page.waitForFunction(() => document.activeElement?.tagName === 'H1')
    await page.getByRole('button', { name: 'Create collection' }).press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.close()
  })

  it('fits into a width of 320 pixels, and into a wide screen', async () => {
    for (const width of [320, 3840]) {
      const page = await console.open('', { width })
      for (const view of [
        'overview',
        `search?id=${ids[0]}`,
        'points',
        'import',
        'collections',
        'snapshots',
        'settings',
        'cluster',
      ]) {
        await page.goto(`${console.service.httpUrl}/console/#/${view}`)
        const name = new RegExp(`^${view.split('?')[0]}`, 'i')
        await page.getByRole('heading', { level: 1, name }).waitFor()
        if (view.startsWith('search')) await page.locator('.result').first().waitFor()
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        assert.ok(overflow <= 0, `${view} is ${overflow} px too wide at ${width} px`)
      }
      await page.close()
    }
  })
})

describe('a new server in the console', { skip: missingChromium }, () => {
  it('offers a sample that can be searched', async () => {
    await using console = await startConsole()
    const page = await console.open('')
    await page.getByText('The server is running and has no points yet.').waitFor()
    await keepScreenshot(page, 'first-steps')
    await page.getByRole('button', { name: 'Load the sample' }).click()
    await page.getByText('10 results').waitFor()
    const [first] = await page.locator('.results .content').allTextContents()
    assert.equal(first, 'tomato')
    assert.deepEqual(console.faults, [])
  })
})

async function getPoint({ service }: ConsoleBrowser, id: string): Promise<Response> {
  return await fetch(`${service.httpUrl}/points/${id}`)
}

/** The texts of the ten points nearest to a point, from the API. */
async function nearest(
  { service }: ConsoleBrowser,
  id: string,
  similarity: string,
): Promise<readonly string[]> {
  const { vector } = (await (await fetch(`${service.httpUrl}/points/${id}`)).json()) as {
    readonly vector: number[]
  }
  const response = await fetch(`${service.httpUrl}/points/search`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vector, similarity, limit: 11 }),
  })
  const { results } = (await response.json()) as { readonly results: readonly string[] }
  const others = results.filter((each) => each !== id).slice(0, 10)
  const points = await Promise.all(
    others.map(async (each) => (await fetch(`${service.httpUrl}/points/${each}`)).json()),
  )
  return (points as { readonly payload: { readonly content: string } }[]).map(
    ({ payload }) => payload.content,
  )
}
