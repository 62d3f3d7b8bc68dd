import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { colourRules, faultsOf } from './axe.ts'
import { type ConsoleBrowser, glosses, missingChromium, startConsole, storeGlosses } from './browser.ts'

/** An address, and the steps that bring the page into the state to check. */
type Opened = readonly [hash: string, ready: (page: Page) => Promise<void>]

/** Pages with a filter, and those that read all points. */
const withFilters: readonly Opened[] = [
  [
    '#/points?filter={"$content_type":"Text"}',
    async (page) => {
      await page.getByText('points match').waitFor()
      await page.getByRole('button', { name: 'Add', exact: true }).click()
      await page.getByRole('button', { name: 'JSON' }).click()
      await page.getByLabel('Filter as JSON').waitFor()
    },
  ],
  [
    '#/points?filter={"$content_type":"Text"}',
    async (page) => {
      await page.getByRole('button', { name: 'Update matching' }).click()
      await page.getByRole('button', { name: 'Add attribute' }).click()
      await page.getByLabel('Name').fill('seen')
      await page.getByRole('button', { name: 'Count first' }).click()
      await page.getByText('Change 40 points?').waitFor()
    },
  ],
  [
    '#/points?filter={"none":1}',
    async (page) => page.getByRole('button', { name: 'Clear the filter' }).waitFor(),
  ],
  [
    '#/points',
    async (page) => {
      await page.getByRole('button', { name: 'Export all' }).click()
      await page.getByText('All 40 points of default.').waitFor()
    },
  ],
  [
    '#/requests?method=POST&path=/points/count&body={}',
    async (page) => {
      await page.getByRole('button', { name: 'Send', exact: true }).click()
      await page.getByText('"count": 40').waitFor()
      await page.getByLabel('Body as JSON').waitFor()
    },
  ],
  ['#/map', async (page) => page.getByText('40 points', { exact: true }).waitFor()],
]

describe('the pages of the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let id: string

  before(async () => {
    console = await startConsole({ slowQueryMs: 0 })
    id = (await storeGlosses(console.service, glosses(40)))[0]!
    // A request for the list of slow ones.
    await fetch(`${console.service.httpUrl}/points/count`, { method: 'POST' })
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
  })

  for (const [colorScheme, rules] of [
    ['light', undefined],
    ['dark', colourRules],
  ] as const) {
    it(`have no accessibility violations, in ${colorScheme} colours`, async () => {
      const opened: readonly Opened[] = [
        [
          '#/',
          async (page) => {
            await page.getByText('Everything is in order.').waitFor()
            await page.locator('.recall-table').waitFor()
            await page.locator('.slow-table').waitFor()
          },
        ],
        [`#/search?id=${id}`, async (page) => page.locator('.result').first().waitFor()],
        [
          `#/search?id=${id}&as=cards&compare=1&filter={"$content_type":"Text"}`,
          async (page) => {
            await page.locator('.recall').waitFor()
            await page.getByText('How it was answered').click()
            await page.getByRole('button', { name: 'JSON', exact: true }).click()
            await page.getByLabel('Filter as JSON').waitFor()
          },
        ],
        [`#/points?id=${id}`, async (page) => page.locator('.vector-strip').waitFor()],
        [
          `#/points?id=${id}`,
          async (page) => {
            await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click()
            await page.getByRole('button', { name: 'Add attribute' }).click()
          },
        ],
        ['#/points', async (page) => page.getByRole('button', { name: 'Insert point' }).click()],
        ['#/import', async (page) => page.locator('.drop-zone').waitFor()],
        [
          '#/import?c=nowhere',
          async (page) => {
            const buffer = Buffer.from('name,vector,price\nlamp,1 2 3,5\ndesk,1 2 x,6\n')
            const file = { name: 'shop.csv', mimeType: 'text/csv', buffer }
            await page.locator('input[type=file]').setInputFiles(file)
            await page.getByText('Skipped:').last().waitFor()
          },
        ],
        ['#/collections', async (page) => page.getByRole('row', { name: /default/ }).waitFor()],
        ['#/collections', async (page) => page.getByRole('button', { name: 'Create collection' }).click()],
        ['#/snapshots', async (page) => page.locator('.snapshot-list').waitFor()],
        ...withFilters,
        ['#/settings', async (page) => page.locator('.settings').first().waitFor()],
      ]
      for (const [hash, ready] of opened) {
        const page = await console.open(hash, { colorScheme })
        await ready(page)
        assert.deepEqual(await faultsOf(page, rules), [], `${hash} in ${colorScheme}`)
        await page.close()
      }
    })
  }
})
