import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { figureOf } from './support/metrics.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { noSmallDisk, SmallDisk } from './support/small-disk.ts'
import { until } from './support/until.ts'

/** What an operator sees in the log of a service and in `/readyz`. */

const grpcKey = 'a-grpc-key-for-tests'
const httpKey = 'an-http-key-for-tests'

interface Line {
  readonly level: number
  readonly msg: string
  readonly [field: string]: unknown
}

function linesOf({ command }: ServerProcess): Line[] {
  const whole = command.stdout.slice(0, command.stdout.lastIndexOf('\n'))
  return whole.split('\n').map((line) => JSON.parse(line) as Line)
}

function insert(service: ServerProcess, content: string, key = ''): Promise<Response> {
  return fetch(`${service.httpUrl}/points`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: key },
    body: JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content } }),
  })
}

describe('the log', () => {
  it('begins with the version and the settings that differ from their defaults, and shows no secret', async () => {
    await using directory = await temporaryDirectory()
    const keys = { GRPC_ROOT_PASSWORD: grpcKey, HTTP_API_KEY: httpKey }
    await using service = await ServerProcess.start(directory.path, { ...keys, HNSW_EF: '99' })
    const [first] = linesOf(service)
    assert.equal(first!.msg, 'vicinal starts')
    assert.match(first!.version as string, /^\d+\.\d+\.\d+/)
    const settings = first!.settings as Record<string, unknown>
    assert.deepEqual(
      [settings.HNSW_EF, settings.DATA_DIR, settings.GRPC_ROOT_PASSWORD, settings.HTTP_API_KEY],
      [99, directory.path, 'set', 'set'],
    )
    for (const unchanged of ['DIMENSION', 'HTTP_HOST', 'MAX_REQUEST_BYTES', 'API_KEYS_FILE']) {
      assert.equal(settings[unchanged], undefined, unchanged)
    }
    const listening = linesOf(service).find(({ msg }) => msg === 'HTTP listens')
    assert.deepEqual([listening!.docs, listening!.console], ['/docs', '/console'])
    for (const key of Object.values(keys)) assert.ok(!service.command.stdout.includes(key))
  })

  it('has a line for each request at level debug, without its content', async () => {
    await using directory = await temporaryDirectory()
    const environment = { LOG_LEVEL: 'debug', GRPC_ROOT_PASSWORD: grpcKey }
    await using service = await ServerProcess.start(directory.path, environment)
    assert.equal((await insert(service, 'a secret content')).status, 201)
    using grpc = new RawGrpc(service.grpcAddress, grpcKey)
    await grpc.call('GetPoint', { id: { value: 'nonsense' } })
    const requests = (): Line[] => linesOf(service).filter(({ msg }) => msg === 'request')
    await until(() => requests().length === 2, 'both are in the log')
    assert.deepEqual(
      requests().map(({ operation, transport, outcome }) => [operation, transport, outcome]),
      [
        ['InsertVector', 'http', 'ok'],
        ['GetPoint', 'grpc', 'invalid_argument'],
      ],
    )
    for (const { ms } of requests()) assert.ok(typeof ms === 'number' && ms >= 0)
    assert.doesNotMatch(service.command.stdout, /a secret content/)
  })

  it('warns of refused keys in a few lines that count them all, and shows no key', async () => {
    await using directory = await temporaryDirectory()
    const keys = { GRPC_ROOT_PASSWORD: grpcKey, HTTP_API_KEY: httpKey }
    await using service = await ServerProcess.start(directory.path, keys)
    const wrong = 'not-the-right-key'
    await Promise.all(Array.from({ length: 200 }, () => insert(service, 'x', wrong)))
    using grpc = new RawGrpc(service.grpcAddress, wrong)
    await grpc.call('GetPoint', { id: { value: 'nonsense' } })
    const warnings = (): Line[] => linesOf(service).filter(({ msg }) => /refused a .* key/.test(msg))
    const counted = (): number => warnings().reduce((sum, { calls }) => sum + (calls as number), 0)
    await until(() => counted() === 201, 'all are counted')
    assert.ok(warnings().length < 100, `${warnings().length} lines`)
    assert.deepEqual([warnings()[0]!.level, warnings()[0]!.transport], [40, 'http'])
    assert.match(warnings()[0]!.from as string, /127\.0\.0\.1/)
    assert.ok(!service.command.stdout.includes(wrong))
    const metrics = await fetch(`${service.httpUrl}/metrics`, { headers: { authorization: httpKey } })
    const text = await metrics.text()
    assert.match(text, /^vicinal_refused_keys\{transport="http"\} 200$/m)
    assert.match(text, /^vicinal_refused_keys\{transport="grpc"\} 1$/m)
  })

  it('reports a full disk once, and when it ends, and so does /readyz', async (context) => {
    using disk = SmallDisk.mount(16 * 1024 * 1024)
    if (disk === undefined) return context.skip(noSmallDisk)
    const ballast = join(disk.path, 'ballast')
    writeFileSync(ballast, Buffer.alloc(6 * 1024 * 1024))
    await using service = await ServerProcess.start(join(disk.path, 'data'))
    const ready = async (): Promise<string> => {
      const answer = await fetch(`${service.httpUrl}/readyz`)
      assert.equal(answer.status, 200)
      return answer.text()
    }
    const lineCount = (pattern: RegExp): number =>
      linesOf(service).filter(({ msg }) => pattern.test(msg)).length
    assert.equal(await ready(), 'ready')
    const content = 'x'.repeat(100_000)
    let refused = 0
    for (let tries = 0; refused < 5; tries += 1) {
      assert.ok(tries < 1000)
      if ((await insert(service, content)).status === 507) refused += 1
    }
    assert.match(await ready(), /^ready, but the disk is full: inserts are refused/)
    assert.equal(await figureOf(service, 'vicinal_writes_blocked{reason="disk_full"}'), 1)
    await until(() => lineCount(/disk is full/) === 1, 'the log reports the full disk')

    rmSync(ballast)
    assert.equal((await insert(service, content)).status, 201)
    assert.equal(await ready(), 'ready')
    assert.equal(await figureOf(service, 'vicinal_writes_blocked{reason="disk_full"}'), 0)
    await until(() => lineCount(/disk has space again/) === 1, 'the log reports the end')
    assert.equal(lineCount(/disk is full/), 1)
    assert.equal(linesOf(service).filter(({ level }) => level >= 50).length, 1, 'requests add no lines')
  })
})
