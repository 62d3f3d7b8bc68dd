import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
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
})
