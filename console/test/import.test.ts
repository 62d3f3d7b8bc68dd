import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parquetWriteBuffer } from 'hyparquet-writer'
import type { Page } from 'playwright-core'
import { type ConsoleBrowser, keepScreenshot, missingChromium, startConsole } from './browser.ts'

interface StoredPoint {
  readonly vector: readonly number[]
  readonly payload: { readonly content: string; readonly attributes?: Readonly<Record<string, unknown>> }
}

describe('an import in the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-import-'))

  before(async () => {
    console = await startConsole()
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
    assert.deepEqual(console.faults, [])
  })

  it('of CSV stores columns as vector, content and attributes with the selected types', async () => {
    const page = await choose(
      'shop',
      'shop.csv',
      [
        'name,v0,v1,v2,v3,price,zip,since,secret',
        'lamp,1,2,3,4,12.5,00501,2026-01-31,x',
        '"desk, large",-1,0.5,0,1e2,800,10115,2026-02-01T10:00:00Z,y',
        'chair,1,2,three,4,1,1,2026-01-01,z',
        'stool,1,2,3,4,cheap,1,2026-01-01,z',
      ].join('\n'),
    )
    assert.equal(await page.getByLabel('Vector').inputValue(), 'v0 … v3')
    assert.equal(await page.getByLabel('Type of zip').inputValue(), 'text')
    await page.getByLabel('Content', { exact: true }).selectOption('name')
    assert.equal(await page.getByLabel('Type of price').inputValue(), 'text')
    await page.getByLabel('Type of price').selectOption('number')
    await page.getByRole('checkbox', { name: 'secret' }).uncheck()
    await page.getByText('desk, large').waitFor()
    await keepScreenshot(page, 'import-csv')
    await start(page, 'shop.csv')
    await page.getByText('2 points stored').waitFor()
    assert.deepEqual(await page.locator('.line-faults li').allTextContents(), [
      'line 4 `v2` is not made of numbers: "three"',
      'line 5 `price` is not a number, as the column is: "cheap"',
    ])
    assert.deepEqual(await storedPoints('shop'), [
      point([1, 2, 3, 4], 'lamp', { price: 12.5, since: { $date: '2026-01-31T00:00:00Z' }, zip: '00501' }),
      point([-1, 0.5, 0, 100], 'desk, large', {
        price: 800,
        since: { $date: '2026-02-01T10:00:00Z' },
        zip: '10115',
      }),
    ])
    await page.close()
  })

  it('of Parquet keeps the types of its columns', async () => {
    const buffer = parquetWriteBuffer({
      columnData: [
        {
          name: 'embedding',
          data: [
            [1, 2],
            [3, 4],
          ],
          type: 'JSON',
        },
        { name: 'text', data: ['a', 'b'], type: 'STRING' },
        { name: 'count', data: [1n, 2n], type: 'INT64' },
        { name: 'good', data: [true, false], type: 'BOOLEAN' },
      ],
    })
    const page = await choose('parquet', 'a.parquet', Buffer.from(buffer))
    await start(page, 'a.parquet')
    await page.getByText('2 points stored').waitFor()
    assert.deepEqual(await storedPoints('parquet'), [
      point([1, 2], 'a', { count: 1, good: true }),
      point([3, 4], 'b', { count: 2, good: false }),
    ])
    await page.close()
  })

  it('of NumPy stores a vector for each row', async () => {
    const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.padEnd(117)
    const bytes = Buffer.concat([
      Buffer.from(`\x93NUMPY\x01\x00v\x00${head}\n`, 'latin1'),
      Buffer.from(new Float32Array([1, 2, 3, 4, 5, 6]).buffer),
    ])
    const page = await choose('numpy', 'a.npy', bytes)
    await start(page, 'a.npy')
    await page.getByText('2 points stored').waitFor()
    assert.deepEqual(await storedPoints('numpy'), [point([1, 2, 3], 'row 0'), point([4, 5, 6], 'row 1')])
    await page.close()
  })

  it('accepts a file dropped onto the page, and explains why it cannot read one', async () => {
    const page = await console.open('#/import')
    const data = await page.evaluateHandle(() => {
      const transfer = new DataTransfer()
      transfer.items.add(new File(['[{"vector": [1]}]'], 'array.json'))
      return transfer
    })
    await page.locator('.drop-zone').dispatchEvent('drop', { dataTransfer: data })
    await page.getByRole('alert').getByText('one JSON array').waitFor()
    await page.close()
  })

  it('stores a batch only once if its response was lost', async () => {
    const page = await choose('lost', 'lost.jsonl', lines(1200))
    let lost = 0
    await page.context().route('**/points/batch', async (route) => {
      if (lost > 0) return await route.fallback()
      lost++
      // The server stores the batch, but the response is lost.
      await route.fetch()
      return await route.abort('connectionreset')
    })
    await start(page, 'lost.jsonl')
    await page.getByText('1,200 points stored').waitFor()
    assert.equal(lost, 1)
    assert.equal(await countOf('lost'), 1200)
    await page.close()
  })

  it('of JSON lines stores fields that begin late, and names columns that it leaves out', async () => {
    const late = Array.from({ length: 300 }, (_, index) =>
      JSON.stringify({ vector: [index, 1], text: 'a', k: 1, ...(index < 200 ? {} : { late: index }) }),
    )
    const page = await choose('late', 'late.jsonl', late.join('\n'))
    await page.getByRole('checkbox', { name: 'k', exact: true }).uncheck()
    await start(page, 'late.jsonl')
    await page.getByText('300 points stored').waitFor()
    await page.getByText('not stored: column k (300 rows)').waitFor()
    const filter = { late: { $exists: true }, k: { $exists: false } }
    assert.equal((await post('collections/late/points/count', { filter })).count, 100)
    await page.close()
  })

  it('warns before it stores a file again, unless its points are gone', async () => {
    const page = await choose('again', 'again.jsonl', lines(3))
    await start(page, 'again.jsonl')
    await page.getByText('3 points stored').waitFor()
    const reopen = async (): Promise<void> => {
      await page.reload()
      await page.locator('input[type=file]').setInputFiles(join(directory, 'again.jsonl'))
    }
    await reopen()
    await page.getByText('This file was imported before: 3 points.').waitFor()
    await fetch(`${console.service.httpUrl}/collections/again`, { method: 'DELETE' })
    await fetch(`${console.service.httpUrl}/collections/again`, { method: 'PUT' })
    const counted = page.waitForResponse(/points\/count/)
    await reopen()
    await counted
    await page.getByRole('button', { name: 'Import again.jsonl', exact: true }).waitFor()
    assert.equal(await page.getByText('This file was imported before').count(), 0)
    await page.close()
  })

  it('pauses, and resumes after the page was closed', async () => {
    const page = await choose('paused', 'paused.jsonl', `not JSON\n${lines(2300)}`)
    let sent = 0
    const held = Promise.withResolvers<void>()
    await page.context().route('**/points/batch', async (route) => {
      sent++
      if (sent === 2) await held.promise
      return await route.fallback()
    })
    await start(page, 'paused.jsonl')
    await page.getByText('500 points stored').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    held.resolve()
    await page.getByText('1,000 points stored').waitFor()
    await page.getByText('Paused: paused.jsonl').waitFor()
    assert.equal(await countOf('paused'), 1000)
    await page.reload()
    await page.locator('input[type=file]').setInputFiles(join(directory, 'paused.jsonl'))
    await page.getByText('interrupted after line 1,001').waitFor()
    await page.getByRole('button', { name: 'Resume from there' }).click()
    await page.getByText('2,300 points stored').waitFor()
    await page.getByText('Imported paused.jsonl').waitFor()
    await page.getByText(', 1 line skipped').waitFor()
    const skipped = await page.locator('.line-faults li').allTextContents()
    assert.match(skipped.join('\n'), /^line 1 not JSON: .*$/)
    assert.equal(await countOf('paused'), 2300)
    await page.close()
  })

  it('resumes after the server refused a batch, without storing or counting anything twice', async () => {
    // The server refuses a batch with 300 lines that were skipped, of which the page lists 200.
    const page = await choose('refused', 'refused.jsonl', lines(500) + 'not JSON\n'.repeat(300) + lines(200))
    let isRefusing = true
    let sent = 0
    await page.context().route('**/points/batch', async (route) => {
      sent++
      if (!isRefusing || sent === 1) return await route.fallback()
      return await route.fulfill({ status: 507, contentType: 'text/plain', body: 'the disk is full' })
    })
    await start(page, 'refused.jsonl')
    await page.getByRole('alert').getByText('the disk is full').waitFor()
    await page.getByText('500 points stored').waitFor()
    await page.getByText(', 300 lines skipped').waitFor()
    isRefusing = false
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByText('700 points stored').waitFor()
    await page.getByText(', 300 lines skipped').waitFor()
    await page.getByText('and 100 more').waitFor()
    assert.equal(await page.locator('.line-faults li').count(), 200)
    assert.equal(await countOf('refused'), 700)
    await page.close()
  })

  /** Opens the import page of a collection, and chooses a file. */
  async function choose(collection: string, name: string, content: string | Buffer): Promise<Page> {
    writeFileSync(join(directory, name), content)
    await fetch(`${console.service.httpUrl}/collections/${collection}`, { method: 'PUT' })
    const page = await console.open(`#/import?c=${collection}`)
    await page.locator('input[type=file]').setInputFiles(join(directory, name))
    await page.getByRole('button', { name: `Import ${name}` }).waitFor()
    return page
  }

  async function storedPoints(collection: string): Promise<readonly StoredPoint[]> {
    const answer = await post(`collections/${collection}/points/list`, {
      include: { payload: true, vector: true },
    })
    return (answer.points as readonly StoredPoint[]).map(({ vector, payload }) => ({ vector, payload }))
  }

  async function countOf(collection: string): Promise<unknown> {
    return (await post(`collections/${collection}/points/count`, {})).count
  }

  async function post(path: string, body: unknown): Promise<Readonly<Record<string, unknown>>> {
    const response = await fetch(`${console.service.httpUrl}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return (await response.json()) as Readonly<Record<string, unknown>>
  }
})

async function start(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: `Import ${name}` }).click()
}

function point(
  vector: readonly number[],
  content: string,
  attributes?: StoredPoint['payload']['attributes'] & {},
): unknown {
  const payload = { content_type: 'Text', content, ...(attributes === undefined ? {} : { attributes }) }
  return { vector, payload }
}

/** `count` points as JSON lines. */
function lines(count: number): string {
  return Array.from(
    { length: count },
    (_, index) => `{"vector":[${index},1],"text":"point ${index}"}\n`,
  ).join('')
}
