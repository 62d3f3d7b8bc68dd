import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHttpClient } from '../../src/client/http.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { fileOfKeys } from '../../test/support/restricted-keys.ts'
import { httpKey, missingChromium, startConsole } from './browser.ts'

describe('the console of a server with a key', { skip: missingChromium }, () => {
  it('asks for the key, keeps it in the tab, and removes it on request', async () => {
    await using console = await startConsole({ HTTP_API_KEY: httpKey })
    const page = await console.open('#/collections')
    await page.getByRole('heading', { name: 'This server requires an API key' }).waitFor()
    await page.getByLabel('API key').fill('a wrong one')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('The server refused this key.').waitFor()
    await page.getByLabel('API key').fill(httpKey)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('row', { name: /default/ }).waitFor()
    await page.reload()
    await page.getByRole('row', { name: /default/ }).waitFor()
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('of-http')), false)
    assert.equal(await page.evaluate(() => document.cookie), '')

    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Remove key' }).click()
    await page.getByRole('heading', { name: 'This server requires an API key' }).waitFor()
    assert.deepEqual(console.faults, [])
  })

  it('searches with a key that has a filter, and asks again for one that no header can have', async () => {
    await using directory = await temporaryDirectory()
    const path = await fileOfKeys(directory.path)
    await using console = await startConsole({ API_KEYS_FILE: path, HTTP_API_KEY: httpKey })
    const admin = createHttpClient({ baseUrl: console.service.httpUrl, apiKey: httpKey })
    await admin.insertBatch(
      [1, 2].map((kind) => {
        const payload = { contentType: 'Text', content: `of kind ${kind}`, attributes: { kind } } as const
        return { vector: [kind, 1], payload }
      }),
    )
    const { key } = await admin.keys.create({ name: 'some', filter: { kind: 1 } })
    const page = await console.open('#/search?vector=[1,1]')
    await page.getByLabel('API key').fill(`${key}\u200b`)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.locator('input:invalid').waitFor()
    await page.getByLabel('API key').fill(key)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.locator('.result', { hasText: 'of kind 1' }).waitFor()
    assert.equal(await page.locator('.result').count(), 1)
    const statuses: number[] = []
    const answered = page.waitForResponse((response) => {
      if (response.url().endsWith('/points/search')) statuses.push(response.status())
      return statuses.includes(200)
    })
    await page.getByLabel('Limit').fill('1')
    await answered
    assert.deepEqual(statuses, [200])
    assert.deepEqual(console.faults, [])
  })
})
