import assert from 'node:assert/strict'
import {
  closeSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createHttpClient } from '../src/client/http-client.ts'
import { rowsHeaderBytes } from '../src/storage/key-layout.ts'
import { startTestService, type TestService } from './support/service.ts'

const names = ['missing', 'short', 'corrupt', 'header', 'unreadable', 'whole'] as const
type Name = (typeof names)[number]

/** The answer to a search. */
async function search(service: TestService, name: Name): Promise<{ status: number; text: string }> {
  const response = await fetch(`${service.httpUrl}/collections/${name}/points/search`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vector: [1, 2], similarity: 'Euclidean', limit: 1 }),
  })
  return { status: response.status, text: await response.text() }
}

async function damagedCount(service: TestService): Promise<number> {
  const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
  return Number(/^vicinal_damaged_collections (\d+)$/m.exec(metrics)![1])
}

function flip(path: string, position: number): void {
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, position)
  writeSync(file, Buffer.of(byte[0]! ^ 0xff), 0, 1, position)
  closeSync(file)
}

describe('named collections whose files are missing or damaged', { timeout: 120_000 }, () => {
  it('are reported and refused with what is damaged, remembered, and opened again when their files change', async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const payload = { contentType: 'Text', content: 'x' } as const
    const rows = new Map<Name, string>()
    for (const [at, name] of names.entries()) {
      await client.collections.put(name)
      await client.collection(name).insert({ vector: [1, 2], payload })
      rows.set(name, join(service.dataDir, 'collections', String(at + 1), 'vectors.rows'))
    }
    rmSync(rows.get('missing')!)
    truncateSync(rows.get('short')!, rowsHeaderBytes)
    flip(rows.get('corrupt')!, rowsHeaderBytes + 20)
    utimesSync(rows.get('corrupt')!, 1_000_000, 1_000_000)
    flip(rows.get('header')!, 0)
    rmSync(rows.get('unreadable')!)
    mkdirSync(rows.get('unreadable')!)
    await service.restart()

    const ready = await fetch(`${service.httpUrl}/readyz`)
    assert.deepEqual(
      [ready.status, await ready.text()],
      [200, 'ready, but 3 of 7 collections cannot be opened: the log names them'],
    )
    assert.equal(await damagedCount(service), 3)

    const faults: Readonly<Record<Exclude<Name, 'whole'>, RegExp>> = {
      missing: /vectors\.rows cannot be used: it is missing\. .*restore the newest snapshot/,
      short: /vectors\.rows cannot be used: .*`vicinal doctor`/,
      corrupt: /vectors\.rows cannot be used: .*`vicinal doctor`/,
      header: /vectors\.rows cannot be used: it does not begin like a row file\. .*`vicinal doctor`/,
      unreadable: /vectors\.rows cannot be used: the system does not open it \(EISDIR\)\. /,
    }
    for (const [name, fault] of Object.entries(faults) as [Name, RegExp][]) {
      const first = await search(service, name)
      assert.equal(first.status, 500)
      assert.match(first.text, new RegExp(`^the collection ${name} cannot be opened: collections/`))
      assert.match(first.text, fault)
      assert.ok(!first.text.includes(service.dataDir), first.text)
      assert.deepEqual(await search(service, name), first)
    }
    assert.equal(await damagedCount(service), 5)
    assert.equal((await search(service, 'whole')).status, 200)
    assert.equal((await fetch(`${service.httpUrl}/collections`)).status, 200)

    const corrupt = rows.get('corrupt')!
    flip(corrupt, rowsHeaderBytes + 20)
    utimesSync(corrupt, 1_000_000, 1_000_000)
    assert.equal((await search(service, 'corrupt')).status, 500, 'the file is not read again')
    utimesSync(corrupt, 1_000_001, 1_000_001)
    assert.equal((await search(service, 'corrupt')).status, 200)
    assert.equal(await damagedCount(service), 4)
    await fetch(`${service.httpUrl}/collections/missing`, { method: 'DELETE' })
    assert.equal(await damagedCount(service), 3)
  })
})
