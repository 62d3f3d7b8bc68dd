import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { ClusterProcesses, type NodeProcess } from '../../test/cluster/cluster-processes.ts'
import { settled } from '../../test/cluster/parts.ts'
import { natsMissing } from '../../test/support/nats-servers.ts'
import { until } from '../../test/support/until.ts'
import { colourRules, faultsOf } from './axe.ts'
import {
  clickAndHear,
  keepScreenshot,
  missingChromium,
  type PageBrowser,
  startBrowser,
  startConsole,
} from './browser.ts'

describe('the page of a cluster', { skip: missingChromium || natsMissing() }, () => {
  let cluster: ClusterProcesses
  let console: PageBrowser
  before(async () => {
    cluster = await ClusterProcesses.start({ logServers: 3, nodes: 3 })
    for (const node of cluster.nodes) await until(() => node.isReady())
    console = await startBrowser({ httpUrl: cluster.nodes[0]!.url })
  })
  after(async () => {
    await console?.[Symbol.asyncDispose]()
    await cluster?.[Symbol.asyncDispose]()
    assert.deepEqual(console.faults, [])
  })

  it('shows the nodes and the log, and updates automatically', async () => {
    const page = await console.open('')
    await page.getByRole('link', { name: 'Cluster' }).click()
    await page.getByText('All nodes are ready, and the log responds.').waitFor()
    await page.getByText('test, as seen by node node-0.').waitFor()
    await figure(page, 'Nodes ready').getByText('3 of 3').waitFor()
    await figure(page, 'Nodes ready').getByText('in 3 zones').waitFor()
    await figure(page, 'Gaps in the log').getByText('0', { exact: true }).waitFor()
    for (const [index, { name }] of cluster.nodes.entries()) {
      await row(page, name).getByText('serving', { exact: true }).waitFor()
      await row(page, name).getByText(`zone-${index}`).waitFor()
      await row(page, name).getByText('0.1.0').waitFor()
    }
    await row(page, 'node-0').getByText('this node').waitFor()
    // Nodes that run are kept. A node that pauses for some seconds is unreachable meanwhile.
    await page
      .getByRole('button', { name: /Remove/ })
      .first()
      .waitFor({ state: 'detached' })
    await page.getByText('of 1.0 GiB').waitFor()

    const last = await lastPosition(page)
    await insert(cluster.nodes[1]!)
    await until(async () => (await lastPosition(page)) > last)
    await page.close()
  })

  for (const [colorScheme, rules] of [
    ['light', undefined],
    ['dark', colourRules],
  ] as const) {
    it(`has no accessibility violations, in ${colorScheme} colours`, async () => {
      const page = await console.open('#/cluster', { colorScheme })
      await page.getByText('All nodes are ready, and the log responds.').waitFor()
      assert.deepEqual(await faultsOf(page, rules), [])
      await page.close()
    })
  }

  it('reports a node that was killed, and removes it after confirmation', async () => {
    const [, , victim] = cluster.nodes as [NodeProcess, NodeProcess, NodeProcess]
    const page = await console.open('#/cluster')
    await row(page, victim.name).getByText('serving', { exact: true }).waitFor()
    await victim.kill()
    await row(page, victim.name).getByText('unreachable', { exact: true }).waitFor()
    await page.getByText('Node node-2 is unreachable.').waitFor()
    await figure(page, 'Nodes ready').getByText('2 of 3').waitFor()
    await keepScreenshot(page, 'cluster-away')
    const narrow = await console.open('#/cluster', { width: 320, colorScheme: 'dark' })
    await row(narrow, victim.name).getByText('unreachable', { exact: true }).waitFor()
    const overflow = await narrow.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.ok(overflow <= 0, `${overflow} px too wide`)
    await keepScreenshot(narrow, 'cluster-narrow')
    await narrow.close()

    const remove = page.getByRole('button', { name: 'Remove node-2 from the cluster' })
    await remove.click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Remove a node only if it will never come back.').waitFor()
    assert.deepEqual(await faultsOf(page), [])
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await dialog.waitFor({ state: 'detached' })
    assert.equal(await row(page, victim.name).count(), 1, 'nothing is removed before it is confirmed')

    await remove.click()
    await clickAndHear(dialog.getByRole('button', { name: 'Remove node', exact: true }), 'Removed node-2.')
    await row(page, victim.name).waitFor({ state: 'detached' })
    await page.getByText('All nodes are ready, and the log responds.').waitFor()

    await victim.start()
    await row(page, victim.name).getByText('serving', { exact: true }).waitFor()
    await page.close()
  })

  it('does not remove a node that has been started again', async () => {
    const [, , victim] = cluster.nodes as [NodeProcess, NodeProcess, NodeProcess]
    // A node that pauses for five seconds before the request counts as stopped, and is removed: try again.
    await until(async () => {
      const page = await console.open('#/cluster')
      await row(page, victim.name).getByText('serving', { exact: true }).waitFor()
      await victim.kill()
      await page.getByRole('button', { name: 'Remove node-2 from the cluster' }).click()
      await victim.start()
      await row(page, victim.name).getByText('serving', { exact: true }).waitFor()
      await page.getByRole('dialog').getByRole('button', { name: 'Remove node', exact: true }).click()
      const refusal = page.getByText('node node-2 is running: stop it first')
      await refusal.or(page.getByText('Removed node-2.')).first().waitFor()
      const isRefused = await refusal.isVisible()
      await page.close()
      return isRefused
    }, 'the removal is refused')
  })

  it('reports that the log servers do not respond, and recovers when they do', async () => {
    const page = await console.open('#/cluster', { colorScheme: 'dark' })
    await page.getByText('All nodes are ready, and the log responds.').waitFor()
    await keepScreenshot(page, 'cluster-dark')
    await cluster.servers.killAll()
    await page.getByText('The log servers do not respond.').waitFor()
    await page.getByText('Changes are refused with 503').waitFor()
    await figure(page, 'Nodes ready').getByText('unknown').waitFor()
    assert.deepEqual(await faultsOf(page), [])
    await keepScreenshot(page, 'cluster-no-log')
    await cluster.servers.startAll()
    await page.getByText('All nodes are ready, and the log responds.').waitFor()
    await page.close()
  })
})

describe('the overview of a cluster whose nodes each hold some of the points', {
  skip: missingChromium || natsMissing(),
}, () => {
  it('shows the points of every node, nodes that do not respond, and missing partitions', async () => {
    await using cluster = await ClusterProcesses.start({
      logServers: 1,
      nodes: 2,
      environment: { CLUSTER_REPLICAS: '1', DIMENSION: '2' },
    })
    await settled(cluster.nodes)
    const [first, second] = cluster.nodes as [NodeProcess, NodeProcess]
    for (let index = 0; index < 40; index += 1) await insert(first)
    await using console = await startBrowser({ httpUrl: first.url })
    const page = await console.open('')
    const panel = page.locator('section', { has: page.getByRole('heading', { name: 'Index of default' }) })
    const points = panel.locator('.facts > div', { hasText: 'Points' })
    await points.getByText('40', { exact: true }).waitFor()
    for (const { name } of [first, second])
      await row(page, name)
        .getByText(/ [KM]iB$/)
        .first()
        .waitFor()
    await keepScreenshot(page, 'overview-parts')
    assert.deepEqual(await faultsOf(page), [])

    await second.kill()
    await row(page, second.name).getByText('does not respond').waitFor()
    await panel.getByText('No node responds for 128 of the partitions').waitFor()
    const uncounted = page.getByText(
      'No node responds for 128 of 256 partitions, so their points are not counted.',
    )
    await uncounted.waitFor()
    await page.getByText('Everything is in order.').waitFor({ state: 'detached' })
    await keepScreenshot(page, 'overview-parts-away')
    assert.deepEqual(await faultsOf(page), [])
    await page.getByRole('link', { name: 'Collections', exact: true }).click()
    await uncounted.waitFor()
    await keepScreenshot(page, 'collections-parts-away')
    assert.deepEqual(await faultsOf(page), [])
    await page.close()
    assert.deepEqual(console.faults, [])
  })
})

describe('a server without a cluster', { skip: missingChromium }, () => {
  it('has no link to the cluster page, and explains why if a link leads there', async () => {
    await using console = await startConsole()
    const page = await console.open('#/snapshots')
    await page.getByRole('heading', { name: 'Snapshots' }).waitFor()
    assert.equal(await page.getByRole('link', { name: 'Cluster' }).count(), 0)
    await page.goto(`${console.service.httpUrl}/console/#/cluster`)
    await page.getByText('This server is not part of a cluster.').waitFor()
    assert.deepEqual(console.faults, [])
  })
})

function figure(page: Page, name: string) {
  return page.locator('.figure', { hasText: name })
}

function row(page: Page, name: string) {
  return page.locator('tbody tr', { hasText: name })
}

async function lastPosition(page: Page): Promise<number> {
  const text = await page.locator('.facts div', { hasText: 'Last position' }).locator('dd').textContent()
  return Number(text!.replaceAll(',', ''))
}

async function insert({ url }: NodeProcess): Promise<void> {
  const key = randomUUID()
  // The log of a busy machine can be too slow for one attempt.
  await until(async () => {
    const { status } = await fetch(`${url}/points`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content: 'one' } }),
    })
    if (status !== 503) assert.equal(status, 201)
    return status === 201
  }, 'a point is inserted')
}
