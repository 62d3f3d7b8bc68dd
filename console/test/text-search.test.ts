import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, describe, it } from 'node:test'
import { type EmbeddingServer, startEmbeddingServer } from '../../test/support/embedding-server.ts'
import {
  type ConsoleBrowser,
  clickAndHear,
  glosses,
  keepScreenshot,
  missingChromium,
  startConsole,
  storeGlosses,
} from './browser.ts'

/** Tests the console of a server that embeds texts (here by their letters), and of a server that does not. */
describe('the console, with an embedding endpoint', { skip: missingChromium }, () => {
  let endpoint: EmbeddingServer
  let console: ConsoleBrowser

  before(async () => {
    endpoint = await startEmbeddingServer()
    console = await startConsole({ EMBEDDINGS_URL: endpoint.url, EMBEDDINGS_MODEL: 'letters' })
    const vectors = ['aaa', 'bbb', 'ccc'].map((content) => ({ payload: { content_type: 'Text', content } }))
    const stored = await fetch(`${console.service.httpUrl}/points/batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ vectors }),
    })
    assert.equal(stored.status, 201)
  })
  after(async () => {
    await console[Symbol.asyncDispose]()
    await endpoint[Symbol.asyncDispose]()
  })

  it('searches near a text only after it is submitted, and keeps it in the address', async () => {
    const page = await console.open('#/search')
    // A text comes first, and is what the view begins with.
    const ways = page.getByRole('group', { name: 'Search by' }).getByRole('radio')
    await page.waitForFunction(() => document.querySelectorAll('.segments input').length >= 3)
    assert.deepEqual(await ways.evaluateAll((all) => all.map((way) => way.parentElement!.textContent)), [
      'By text',
      'By point',
      'By vector',
    ])
    assert.equal(await ways.first().isChecked(), true)
    const asked = endpoint.requests.length
    const field = page.getByLabel('Text', { exact: true })
    await field.fill('bb and more')
    await page.getByText('Embedded by letters.').waitFor()
    assert.equal(endpoint.requests.length, asked)
    await field.fill('bb')
    await field.press('Enter')
    await page.getByText('3 results').waitFor()
    assert.equal((await page.locator('.results .content').allTextContents())[0], 'bbb')
    assert.deepEqual(
      endpoint.requests.slice(asked).map(({ texts }) => texts),
      [['bb']],
    )
    assert.match((await page.locator('pre').last().textContent()) ?? '', /"text": "bb"/)
    const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    await page.evaluate(axe)
    const faults = await page.evaluate(
      'axe.run().then(({ violations }) => violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id }) => id))',
    )
    assert.deepEqual(faults, [])
    await keepScreenshot(page, 'search-text')

    const again = await console.open(new URL(page.url()).hash)
    await again.getByText('3 results').waitFor()
    assert.equal(await again.getByLabel('Text', { exact: true }).inputValue(), 'bb')
    await again.getByLabel('Text', { exact: true }).fill('cc')
    await again.getByRole('button', { name: 'Search', exact: true }).click()
    await again.waitForFunction(() => document.querySelector('.results .content')?.textContent === 'ccc')
    await page.close()
    await again.close()
    assert.deepEqual(console.faults, [])
  })

  it('inserts a point by its content alone', async () => {
    const page = await console.open('#/points')
    await page.getByRole('button', { name: 'Insert point' }).click()
    await page.getByText('If empty, letters embeds the content.').waitFor()
    await page.getByLabel('Content', { exact: true }).fill('abab')
    await clickAndHear(page.getByRole('button', { name: 'Insert', exact: true }), 'Stored the point.')
    assert.deepEqual(endpoint.requests.at(-1)!.texts, ['abab'])
    await page.close()
  })

  it('shows why a text was not embedded', async () => {
    endpoint.respond = () => ({ status: 401, body: '' })
    const page = await console.open('#/search?by=text&text=never%20seen')
    await page.getByText('refuses the key (401): check EMBEDDINGS_API_KEY').waitFor()
    await page.close()
  })
})

describe('the console, without an embedding endpoint', { skip: missingChromium }, () => {
  it('does not offer text queries', async () => {
    await using console = await startConsole()
    await storeGlosses(console.service, glosses(3))
    const page = await console.open('#/search')
    await page.getByText('Near a vector').waitFor()
    await page.getByRole('button', { name: 'Random point' }).first().waitFor()
    assert.equal(await page.getByText('By text').count(), 0)
    await page.close()
  })
})
