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

describe('the console of a collection with words', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let ids: readonly string[]

  before(async () => {
    console = await startConsole()
    const all = glosses(200)
    ids = await storeGlosses(console.service, all)
    const page = await console.open('#/collections')
    await page.getByRole('button', { name: 'Words', exact: true }).click()
    await page.getByLabel('Paths').fill('content=x')
    await page.getByRole('button', { name: 'Declare words' }).click()
    await page.getByText('The weight of content must be a number above 0, not x.').waitFor()
    await page.getByLabel('Paths').fill('content=2')
    await clickAndHear(
      page.getByRole('button', { name: 'Declare words' }),
      'default can be searched by words.',
    )
    await page.close()
  })
  after(() => console[Symbol.asyncDispose]())

  it('searches by words alone and with a vector, and marks what was found', async () => {
    const page = await console.open('#/search')
    const [word] = glosses(1)[0]!.text.match(/\p{L}{5,}/u)!
    await page.getByLabel('Words', { exact: true }).fill(word)
    await page.locator('.result mark').first().waitFor()
    assert.equal(
      (await page.locator('.result mark').first().textContent())!.toLowerCase(),
      word.toLowerCase(),
    )
    assert.match((await page.locator('.result-distance').first().textContent())!, /Score 1\.000/)
    assert.equal(await page.getByLabel('Balance').count(), 0)
    // The service refuses to search away from a point, near nothing.
    const [more, less] = ['More like this', 'Less like this'].map((name) =>
      page.getByRole('button', { name }),
    )
    assert.ok((await more!.count()) > 0)
    assert.equal(await less!.count(), 0)
    await keepScreenshot(page, 'search-words')
    await page.getByLabel('Id of the point').fill(ids[0]!)
    await page.getByLabel('Balance').fill('0.25')
    await page.getByText('25 % vector, 75 % words').waitFor()
    await page
      .getByText(/distance/)
      .first()
      .waitFor()
    assert.match((await page.locator('pre').last().textContent())!, /"balance": 0\.25/)
    await keepScreenshot(page, 'search-hybrid')
    for (const id of ids.slice(1, 3)) {
      const patched = await fetch(`${console.service.httpUrl}/points/${id}`, {
        method: 'PATCH',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ set: { topic: 'food' } }),
      })
      assert.equal(patched.status, 200)
    }
    await page.getByLabel('Group by').fill('topic')
    await page.getByText('2 results in 1 group').waitFor()
    assert.equal(await page.locator('.group-value').textContent(), 'food')
    assert.match((await page.locator('pre').last().textContent())!, /"group_by": \{"path":"topic","size":3\}/)
    await keepScreenshot(page, 'search-groups')
    await page.getByLabel('Group by').fill('')
    await page.getByText('Shape the answer').click()
    await page.getByLabel('Boosts').fill('[{"filter": {"topic": "food"}, "weight": 9')
    await page.getByText(/Expected .* in JSON/).waitFor()
    await page.getByText('Python', { exact: true }).click()
    await page.getByLabel('Boosts').fill('[{"weight": 9}]')
    await page.getByText('Boost 1 must have one of filter and recent').waitFor()
    await page.getByText('curl', { exact: true }).click()
    await page.getByLabel('Boosts').fill('[{"filter": {"topic": "food"}, "weight": 9}]')
    await page.getByLabel('Diversity').fill('0.1')
    await page.getByText('topic: food').first().waitFor()
    assert.match((await page.locator('pre').last().textContent())!, /"weight":9.*"diversity": 0\.1/s)
    const away = page.locator('.result').first()
    const id = (await away.locator('.link').getAttribute('title'))!.slice('Open '.length)
    await away.getByRole('button', { name: 'Less like this' }).click()
    assert.equal(await page.getByLabel('Unlike').inputValue(), id)
    await page.getByText('How it was answered').click()
    await page.locator('.profile-steps').getByText(/boost/).waitFor()
    await keepScreenshot(page, 'search-shape')
    await page.getByLabel('Id of the point').fill('')
    await page.getByText('This needs something to search near').waitFor()
    await page.locator('.result-distance').first().waitFor()
    await page.close()
    assert.deepEqual(console.faults, [])
  })

  it('measures relevance, and names the queries that the best setting makes worse', async () => {
    const page = await console.open('#/relevance', { width: 390, height: 900 })
    const all = glosses(200)
    const judgements = [3, 50, 120].map((row) => ({
      words: all[row]!.text.split(' ').slice(-2).join(' '),
      vector: all[row]!.vector,
      relevant: { [ids[row]!]: 1 },
    }))
    // The words lead to the first, the vector to another.
    judgements.push({ words: all[7]!.text, vector: all[9]!.vector, relevant: { [ids[7]!]: 1 } })
    await page
      .getByLabel('Judgements', { exact: true })
      .fill([...judgements, '{'].map((each) => (each === '{' ? each : JSON.stringify(each))).join('\n'))
    await page.getByRole('button', { name: 'Measure' }).click()
    await page.getByText('Line 5 is not JSON').waitFor()
    await page
      .getByLabel('Judgements', { exact: true })
      .fill(judgements.map((each) => JSON.stringify(each)).join('\n'))
    await page.getByLabel('balance', { exact: true }).check()
    await page.getByText('Shape the answer').click()
    await page.getByLabel('Diversity').fill('2')
    await page.getByRole('button', { name: 'Measure' }).click()
    await page.getByText('diversity is 2, it must be a number from 0 to 1').waitFor()
    await page.getByLabel('Diversity').fill('much')
    await page.getByRole('button', { name: 'Measure' }).click()
    await page.getByText('Diversity: much is not a number.').waitFor()
    await page.getByLabel('Diversity').fill('0.1')
    await page.getByRole('button', { name: 'Measure' }).click()
    await page.getByText('The first 10 results of 4 queries').waitFor()
    assert.match((await page.locator('.measured').first().textContent())!, /nDCG.*to.*Recall.*MRR/)
    assert.equal(await page.locator('.tries tbody tr').count(), 21)
    await page.getByText(/Best: balance/).waitFor()
    await page.getByText(/better, \d+ worse/).waitFor()
    await keepScreenshot(page, 'relevance-390')
    assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
    await page.close()
    assert.deepEqual(console.faults, [])
  })
})
