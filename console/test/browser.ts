import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { apiKey, startTestService, type TestService } from '../../test/support/service.ts'
import type { TestSettings } from '../../test/support/settings.ts'

/**
 * The paths of Chromium on Debian, Ubuntu and Fedora, and of Google Chrome. Nothing is downloaded. The headless shell is
 * Chromium without its windows and menus: tests need a third less processor time with it.
 */
const places = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
]
const chromiumPath = places.find((path) => existsSync(path))

/** For the `skip` option of tests: why they cannot run here, or false. */
export const missingChromium: string | false =
  chromiumPath === undefined ? 'no Chromium is installed: apt-get install chromium-headless-shell' : false

export const httpKey: string = `${apiKey}-of-http`

/** The pages of a real service in a real browser. It collects every fault of a page. */
export interface PageBrowser extends AsyncDisposable {
  /** Requests to other hosts, exceptions, and violations of the page's content security policy. */
  readonly faults: string[]
  /** Every error that the browser has logged, refused requests included: some tests make some on purpose. */
  readonly logged: string[]
  open(hash: string, options?: OpenOptions): Promise<Page>
}

/** A browser with its own service. */
export interface ConsoleBrowser extends PageBrowser {
  readonly service: TestService
}

export interface OpenOptions {
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  /** Whether requests to other hosts are detected and messages are recorded for `hear`, which takes time. */
  readonly isWatched?: boolean
}

export async function startConsole(settings: TestSettings = {}): Promise<ConsoleBrowser> {
  const service = await startTestService(settings)
  const browser = await startBrowser(service).catch(async (error: unknown) => {
    await service[Symbol.asyncDispose]()
    throw error
  })
  const { faults, logged, open, [Symbol.asyncDispose]: close } = browser
  return {
    service,
    faults,
    logged,
    open,
    async [Symbol.asyncDispose]() {
      await close()
      await service[Symbol.asyncDispose]()
    },
  }
}

/** Starts a browser for the pages of a running service. */
export async function startBrowser(service: { readonly httpUrl: string }): Promise<PageBrowser> {
  const browser = await launchChromium()
  const faults: string[] = []
  const logged: string[] = []
  return {
    faults,
    logged,
    open: (hash, options = {}) => openPage(browser, service.httpUrl, { faults, logged }, hash, options),
    [Symbol.asyncDispose]: () => browser.close(),
  }
}

export function launchChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: chromiumPath!,
    timeout: 120_000,
    // Chromium's sandbox needs privileges that containers do not have.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  })
}

async function openPage(
  browser: Browser,
  httpUrl: string,
  { faults, logged }: Pick<PageBrowser, 'faults' | 'logged'>,
  hash: string,
  { width = 1280, height = 900, colorScheme = 'light', isWatched = true }: OpenOptions,
): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    reducedMotion: 'reduce',
  })
  // Only a failing test waits this long: a wait ends as soon as its condition is met.
  context.setDefaultTimeout(120_000)
  if (isWatched) {
    await keepOffline(context, httpUrl, faults)
    await context.addInitScript(recordMessages)
  }
  const page = await context.newPage()
  page.on('pageerror', (error) => faults.push(error.stack ?? error.message))
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) faults.push(message.text())
    if (message.type() === 'error') logged.push(`${message.text()} ${message.location().url}`)
  })
  await page.goto(`${httpUrl}/console/${hash}`)
  return page
}

declare global {
  interface Window {
    /** The messages that the console has shown and that no test has taken yet. */
    shownMessages: string[]
  }
}

/** Runs in the page. A message is visible for only five seconds: a test on a busy machine could miss it. */
function recordMessages(): void {
  window.shownMessages = []
  const observer = new MutationObserver((changes) => {
    for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
      if (!(node instanceof Element)) continue
      const messages = node.matches('.toast') ? [node] : node.querySelectorAll('.toast')
      for (const message of messages) {
        if (message.checkVisibility({ visibilityProperty: true }))
          window.shownMessages.push(message.textContent)
      }
    }
  })
  observer.observe(document, { childList: true, subtree: true })
}

/** Waits until the console has shown a message with this text, and takes it: the next call waits for another one. */
export async function hear(page: Page, text: string): Promise<void> {
  const take = (wanted: string): boolean => {
    const index = window.shownMessages.findIndex((message) => message.includes(wanted))
    if (index < 0) return false
    window.shownMessages.splice(index, 1)
    return true
  }
  await page.waitForFunction(take, text, { polling: 50 }).catch(async (error: unknown) => {
    const shown = await page.locator('body').textContent()
    throw new Error(`the console has not shown the message "${text}"; the page shows: ${shown}`, {
      cause: error,
    })
  })
}

export async function clickAndHear(button: Locator, text: string): Promise<void> {
  await button.click()
  await hear(button.page(), text)
}

/** Draws a line around all points of the map, which selects them. */
export async function drawAroundPoints(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Select by drawing around points' }).click()
  const { x, y, width, height } = (await page.locator('.map-canvas').boundingBox())!
  await page.mouse.move(x + 3, y + 3)
  await page.mouse.down()
  for (const [right, down] of [
    // Right of this, the buttons cover the map.
    [width - 70, 3],
    [width - 70, height - 3],
    [3, height - 3],
  ] as const) {
    await page.mouse.move(x + right, y + down)
  }
  await page.mouse.up()
}

/** Blocks and reports every request to another host. */
async function keepOffline(context: BrowserContext, origin: string, faults: string[]): Promise<void> {
  await context.route('**/*', async (route) => {
    const { href, protocol } = new URL(route.request().url())
    if (href.startsWith(`${origin}/`) || protocol === 'data:' || protocol === 'blob:')
      return await route.continue()
    faults.push(`a request left the service: ${href}`)
    return await route.abort()
  })
}

const demoPath = join(import.meta.dirname, '../../demo/data')
const glossDimension = 512

export interface Gloss {
  readonly vector: readonly number[]
  readonly text: string
}

/** The first glosses of the demo, with their embeddings. */
export function glosses(count: number): readonly Gloss[] {
  const texts = readFileSync(join(demoPath, 'wordnet-glosses.jsonl'), 'utf8').split('\n').slice(0, count)
  const bytes = new Int8Array(readFileSync(join(demoPath, 'wordnet-glosses.i8')))
  return texts.map((line, row) => ({
    vector: Array.from(bytes.subarray(row * glossDimension, (row + 1) * glossDimension)),
    text: (JSON.parse(line) as { readonly text: string }).text,
  }))
}

/** Stores glosses over HTTP. @returns their ids */
export async function storeGlosses(
  { httpUrl }: TestService,
  stored: readonly Gloss[],
  collection = 'default',
): Promise<readonly string[]> {
  const vectors = stored.map(({ vector, text }) => ({
    vector,
    payload: { content_type: 'Text', content: text },
  }))
  const response = await fetch(`${httpUrl}/collections/${collection}/points/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vectors }),
  })
  const { point_ids } = (await response.json()) as { readonly point_ids: readonly string[] }
  return point_ids
}

/** By default, Playwright hides the caret with an inline style, which the page's content security policy forbids. */
export const pictureOptions = { caret: 'initial' } as const

/** Saves a screenshot of a page in the directory `CONSOLE_SCREENSHOTS`, if it is set. */
export async function keepScreenshot(page: Page, name: string): Promise<void> {
  const directory = process.env.CONSOLE_SCREENSHOTS
  if (directory === undefined) return
  mkdirSync(directory, { recursive: true })
  await page.screenshot({ ...pictureOptions, path: join(directory, `${name}.png`) })
}
