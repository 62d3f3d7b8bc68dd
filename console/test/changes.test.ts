import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Page, Request, Route } from 'playwright-core'
import {
  type ConsoleBrowser,
  clickAndHear,
  drawAroundPoints,
  glosses,
  hear,
  missingChromium,
  startConsole,
  storeGlosses,
} from './browser.ts'

const stored = glosses(60)

/** How a user leaves an open dialog. */
const waysToLeave: readonly ((page: Page) => Promise<unknown>)[] = [
  (page) => page.keyboard.press('Escape'),
  (page) => page.getByRole('dialog').getByRole('button', { name: 'Close' }).click(),
  (page) => page.evaluate(() => history.back()),
]

/** Tests what the console shows and does when points change while it shows them. */
describe('points that are changed in the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let ids: readonly string[]

  before(async () => {
    console = await startConsole()
    ids = await storeGlosses(console.service, stored)
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('are searched again after an edit or a deletion, so that no stale result stays', async () => {
    const page = await console.open(`#/search?id=${ids[0]}&compare=1`)
    await page.getByText('10 results').waitFor()
    const before = await page.locator('.results .content').allTextContents()

    await page.locator('.result').first().getByTitle(/^Open/).click()
    await edit(page, 'edited among the results')
    await page.locator('.results .content', { hasText: 'edited among the results' }).waitFor()
    assert.equal(await page.getByRole('dialog').count(), 1, 'the dialog stays open after an edit')

    await deleteShownPoint(page)
    await page.locator('.results .content', { hasText: 'edited among' }).waitFor({ state: 'detached' })
    await page.waitForFunction(() => document.querySelectorAll('.result').length === 10)
    assert.deepEqual((await page.locator('.results .content').allTextContents()).slice(0, 9), before.slice(1))
    // The exact search for comparison is repeated too. With the deleted point, the recall would be 0.9.
    await page.locator('.recall', { hasText: 'recall 1.000' }).waitFor()
    await page.close()
  })

  it('change on the map without a new map, and are removed from it when they are deleted', async () => {
    const page = await console.open('#/map')
    let maps = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/points/search/batch')) maps++
    })
    await page.getByText('59 points', { exact: true }).waitFor()
    const find = page.getByLabel('Find in contents')

    await openOnMap(page)
    const id = (await page.getByRole('dialog').locator('.point-id').textContent())!.trim()
    await edit(page, 'edited on the map')
    await page.keyboard.press('Escape')
    await page.getByText('59 points selected').waitFor()
    await page.locator('.map-list').getByText('edited on the map').waitFor()
    await find.fill('edited on the map')
    await page.getByText('1 point found').waitFor()

    await page.locator('.map-list').getByText('edited on the map').click()
    assert.ok((await page.getByRole('dialog').locator('.point-id').textContent())!.includes(id))
    await deleteShownPoint(page)
    await page.getByText('58 points', { exact: true }).waitFor()
    await page.getByText('0 points found').waitFor()

    // The cached map has changed too.
    await page.getByRole('link', { name: 'Points', exact: true }).click()
    await page.getByRole('link', { name: 'Map', exact: true }).click()
    // Only the text of the map: the view of the points shows the same one.
    await page.locator('.map-progress').getByText('58 points', { exact: true }).waitFor()
    assert.ok(maps <= 1, `${maps} maps were requested`)
    await page.close()
  })
})

describe('a change of all matching points in the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser

  before(async () => {
    console = await startConsole()
    await storeGlosses(console.service, stored)
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('stops after the request in flight, and reports how many points it changed', async () => {
    const page = await console.open('#/points')
    const server = await holdDeletes(page)
    await startDelete(page)
    await answer(await server.next())
    const second = await server.next()
    await page.getByText('10 done.').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click()
    assert.equal(await page.getByRole('dialog').getByRole('button', { name: 'Stopping' }).isDisabled(), true)
    await answer(second)
    await hear(page, 'Stopped. Deleted 20 points. More points match.')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await server.expectNoMore()
    await page.close()
  })

  it('also stops when its dialog or its view is closed', async () => {
    const page = await console.open('#/points')
    const server = await holdDeletes(page)
    for (const leave of waysToLeave) {
      await page.goto(`${console.service.httpUrl}/console/#/collections`)
      await page.getByRole('heading', { name: 'Collections', level: 1 }).waitFor()
      await page.goto(`${console.service.httpUrl}/console/#/points`)
      await startDelete(page)
      const first = await server.next()
      await leave(page)
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      await answer(first)
      await hear(page, 'Stopped. Deleted 10 points. More points match.')
      await server.expectNoMore()
    }
    await page.close()
  })

  it('stops even if the answer arrives in the frame in which its dialog or its view is closed', async () => {
    for (const leave of waysToLeave) {
      const page = await console.open('#/collections')
      await page.getByRole('heading', { name: 'Collections', level: 1 }).waitFor()
      await page.goto(`${console.service.httpUrl}/console/#/points`)
      await page.evaluate(answerDeletesWhenClosed, { status: 200, body: { changed: 10, more: true } })
      await startDelete(page)
      await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
      await leave(page)
      await hear(page, 'Stopped. Deleted 10 points. More points match.')
      await page.close()
    }
  })

  it('leaves alone what the user does after closing its dialog: another filter, another dialog', async () => {
    const page = await console.open('#/points')
    const server = await holdDeletes(page)
    await startDelete(page)
    const first = await server.next()
    await page.keyboard.press('Escape')
    await page.evaluate(() => {
      location.hash = '#/points?filter={"kind":"none"}'
    })
    await page.getByText('0 points match').waitFor()
    await page.getByRole('button', { name: 'Insert point' }).click()
    const reloaded = page.waitForRequest('**/points/list')
    await answer(first)
    await hear(page, 'Stopped. Deleted 10 points.')
    assert.deepEqual((await reloaded).postDataJSON().filter, { kind: 'none' })
    assert.equal(await page.getByRole('dialog', { name: 'Insert point' }).count(), 1)
    await page.close()
  })

  it('reports a failure, and what was changed before it, even if its dialog is closed', async () => {
    const page = await console.open('#/points')
    const server = await holdDeletes(page)
    await startDelete(page)
    await answer(await server.next())
    const second = await server.next()
    await refuse(second)
    await page.getByRole('dialog').getByText('the disk is full').waitFor()
    await page.getByText('10 done.').waitFor()

    await page.getByRole('button', { name: 'Delete 60 points' }).click()
    const third = await server.next()
    await page.keyboard.press('Escape')
    await refuse(third)
    await hear(page, 'Stopped after 0 points: the disk is full')
    await page.close()
  })

  it('reports a failure that arrives in the frame in which its dialog is closed', async () => {
    const page = await console.open('#/points')
    await page.evaluate(answerDeletesWhenClosed, { status: 503, body: {} })
    await startDelete(page)
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await hear(page, 'Stopped after 0 points')
    await page.close()
  })
})

describe('a form in a dialog of the console', { skip: missingChromium }, () => {
  let console: ConsoleBrowser
  let ids: readonly string[]

  before(async () => {
    console = await startConsole()
    ids = await storeGlosses(console.service, glosses(3))
  })

  after(async () => {
    await console[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('that was closed reports its failure, and leaves another dialog open when it succeeds', async () => {
    const page = await console.open('#/collections')
    const server = await holdRequests(page, '**/collections/films')
    const submitAndClose = async (): Promise<Route> => {
      await page.getByRole('button', { name: 'Create collection' }).click()
      const dialog = page.getByRole('dialog', { name: 'Create collection' })
      await dialog.getByLabel('Name').fill('films')
      await dialog.getByRole('button', { name: 'Create', exact: true }).click()
      const request = await server.next()
      await closeDialog(page, 'Create collection')
      return request
    }
    const refused = await submitAndClose()
    await refuse(refused)
    await hear(page, 'Create collection: the disk is full')

    const accepted = await submitAndClose()
    await page.getByRole('button', { name: 'Create collection' }).click()
    await accepted.continue()
    await hear(page, 'Created films.')
    assert.equal(await page.getByRole('dialog', { name: 'Create collection' }).count(), 1)
    await page.close()
  })

  it('of a point that was closed reports a failed edit', async () => {
    const page = await console.open(`#/search?id=${ids[0]}`)
    const server = await holdRequests(page, `**/points/${ids[1]}`, (request) => request.method() === 'PATCH')
    await page.getByTitle(`Open ${ids[1]}`).click()
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Content', { exact: true }).fill('edited')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    const request = await server.next()
    await closeDialog(page, 'Point')
    await refuse(request)
    await hear(page, 'Edit point: the disk is full')
    await page.close()
  })

  it('of a point that was closed leaves the details of another point open when it is deleted', async () => {
    const page = await console.open(`#/search?id=${ids[0]}`)
    const server = await holdRequests(page, `**/points/${ids[1]}`, (request) => request.method() === 'DELETE')
    await page.getByTitle(`Open ${ids[1]}`).click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('button', { name: 'Delete point' }).click()
    const request = await server.next()
    await closeDialog(page, 'Delete this point?')
    await closeDialog(page, 'Point')
    await page.getByTitle(`Open ${ids[2]}`).click()
    await page.getByRole('button', { name: 'Edit' }).waitFor()
    await request.continue()
    await hear(page, 'Deleted the point.')
    await page.locator('.result').nth(1).waitFor({ state: 'detached' })
    assert.ok((await page.locator('.point-id').textContent())!.includes(ids[2]!))
    await page.close()
  })
})

async function closeDialog(page: Page, name: string): Promise<void> {
  await page.keyboard.press('Escape')
  await page.getByRole('dialog', { name }).waitFor({ state: 'detached' })
}

/** Changes the content of the point in the open dialog. */
async function edit(page: Page, content: string): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Edit' }).click()
  await dialog.getByLabel('Content', { exact: true }).fill(content)
  await clickAndHear(dialog.getByRole('button', { name: 'Save', exact: true }), 'Saved the changes.')
}

async function deleteShownPoint(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await clickAndHear(page.getByRole('button', { name: 'Delete point' }), 'Deleted the point.')
  await page.getByRole('dialog').first().waitFor({ state: 'detached' })
}

/** Selects all points of a map and opens one of them. */
async function openOnMap(page: Page): Promise<void> {
  await drawAroundPoints(page)
  await page.getByText('59 points selected').waitFor()
  await page.locator('.map-list .facet').first().click()
}

async function startDelete(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Delete all' }).click()
  await page.getByRole('button', { name: 'Count first' }).click()
  await page.getByRole('button', { name: 'Delete 60 points' }).click()
}

interface HeldRequests {
  /** The next request. It waits for its answer, and does not reach the server unless the test lets it continue. */
  next(): Promise<Route>
  expectNoMore(): Promise<void>
}

/** Holds the requests that delete points. Only a server with very many points would answer that more match. */
function holdDeletes(page: Page): Promise<HeldRequests> {
  return holdRequests(page, '**/points/delete', (request) => !isDryRun(request))
}

async function holdRequests(
  page: Page,
  url: string,
  isHeld: (request: Request) => boolean = () => true,
): Promise<HeldRequests> {
  const held: Route[] = []
  let wake: () => void = () => undefined
  await page.route(url, async (route) => {
    if (!isHeld(route.request())) return await route.fallback()
    held.push(route)
    wake()
  })
  return {
    async next() {
      while (held.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      return held.shift()!
    },
    async expectNoMore() {
      // A further request would have been sent right after the last answer, before this one.
      await page.evaluate(() => fetch('../health'))
      assert.equal(held.length, 0, 'a request was sent after the stop')
    },
  }
}

interface Answer {
  readonly status: number
  readonly body: object
}

/**
 * Runs in the page. It answers a request to delete as soon as no dialog is open. The `close` event of a dialog is
 * delayed, as on a busy machine: usually it would come before the page has read the answer.
 */
function answerDeletesWhenClosed({ status, body }: Answer): void {
  const delay = (event: Event): void => {
    if (!event.isTrusted) return
    event.stopImmediatePropagation()
    setTimeout(() => event.target!.dispatchEvent(new Event('close')), 200)
  }
  document.addEventListener('close', delay, { capture: true })
  const { fetch } = window
  window.fetch = async (url, init) => {
    if (!String(url).endsWith('/points/delete') || String(init?.body).includes('"dry_run":true')) {
      return await fetch(url, init)
    }
    await new Promise<void>((resolve) => {
      const observer = new MutationObserver(() => {
        if (document.querySelector('dialog[open]') !== null) return
        observer.disconnect()
        resolve()
      })
      observer.observe(document, { attributeFilter: ['open'], childList: true, subtree: true })
    })
    return Response.json(body, { status })
  }
}

function isDryRun(request: Request): boolean {
  return (request.postDataJSON() as { readonly dry_run: boolean }).dry_run
}

async function answer(route: Route): Promise<void> {
  await route.fulfill({ json: { changed: 10, more: true } })
}

async function refuse(route: Route): Promise<void> {
  await route.fulfill({ status: 503, contentType: 'text/plain', body: 'the disk is full' })
}
