import assert from 'node:assert/strict'
import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { status } from '@grpc/grpc-js'
import { createGrpcClient, createHttpClient, DatabaseError, type VectorClient } from '../src/client/index.ts'
import { run, ServerProcess, temporaryDirectory } from './support/process.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { apiKey, startTestCluster, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** Key rotation, read-only keys, and the key that a service generated earlier. */

const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'one' } } as const
const query = { vector: [1, 2], metric: 'Cosine', limit: 1 } as const
const readKey = 'a-key-that-may-only-read'
const writeKey = 'a-key-that-may-do-everything'

/** The outcome of a call: `ok`, or the reason of its failure. */
async function outcomeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'ok',
    (error: unknown) => (error instanceof DatabaseError ? error.reason : String(error)),
  )
}

type Addresses = Pick<TestService, 'grpcAddress' | 'httpUrl'>

/** One client for each transport, with the key. */
function clientsOf(service: Addresses, key: string): VectorClient[] {
  return [
    createGrpcClient({ address: service.grpcAddress, apiKey: key, retries: 0 }),
    createHttpClient({ baseUrl: service.httpUrl, apiKey: key }),
  ]
}

/** Whether both transports accept the key for a search; undefined if only one does. */
async function accepts(service: Addresses, key: string): Promise<boolean | undefined> {
  const outcomes = await Promise.all(
    clientsOf(service, key).map(async (client) => {
      const outcome = await outcomeOf(client.search(query))
      await client.close()
      return outcome
    }),
  )
  return new Set(outcomes).size === 1 ? outcomes[0] === 'ok' : undefined
}

async function keysFile(directory: string, ...lines: readonly string[]): Promise<string> {
  const path = join(directory, 'keys')
  await writeFile(`${path}.new`, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 })
  await rename(`${path}.new`, path)
  return path
}

describe('a key that is being replaced', () => {
  it('stays valid together with the next one, on both transports, and calls are counted by key', async () => {
    await using directory = await temporaryDirectory()
    await using service = await startTestService({
      GRPC_ROOT_PASSWORD: 'old-grpc-key',
      HTTP_API_KEY: 'old-http-key',
      API_KEYS_FILE: await keysFile(directory.path, 'write next the-shared-next-key'),
    })
    assert.equal(await accepts(service, 'the-shared-next-key'), true)
    assert.equal(await accepts(service, 'another-key'), false)
    const [grpc] = clientsOf(service, 'old-grpc-key')
    const [, http] = clientsOf(service, 'old-http-key')
    assert.deepEqual(
      [await outcomeOf(grpc!.search(query)), await outcomeOf(http!.search(query))],
      ['ok', 'ok'],
    )
    await grpc!.close()
    const metrics = await fetch(`${service.httpUrl}/metrics`, { headers: { authorization: 'old-http-key' } })
    const text = await metrics.text()
    for (const line of [
      'vicinal_key_calls{key="GRPC_ROOT_PASSWORD"} 1',
      'vicinal_key_calls{key="HTTP_API_KEY"} 2',
      'vicinal_key_calls{key="next"} 2',
    ]) {
      assert.ok(text.includes(`${line}\n`), `${line} in ${text}`)
    }
  })
})

describe('a file of keys', () => {
  it('adds read-only keys and keys for everything to the one of the settings', async () => {
    await using directory = await temporaryDirectory()
    const file = await keysFile(
      directory.path,
      '# role name key',
      `read dashboard ${readKey}`,
      '',
      ` write\timporter ${writeKey}`,
    )
    await using service = await startTestService({ API_KEYS_FILE: file })
    assert.equal((await fetch(`${service.httpUrl}/metrics`)).status, 401)
    const [root] = clientsOf(service, apiKey)
    const id = await root!.insert(point)
    await root!.close()
    for (const [key, changing] of [
      [writeKey, 'ok'],
      [readKey, 'permission_denied'],
    ] as const) {
      for (const client of clientsOf(service, key)) {
        const own = changing === 'ok' ? await client.insert(point) : id
        const reads = [client.get(id), client.search(query), client.searchBatch([query])]
        assert.deepEqual(await Promise.all(reads.map(outcomeOf)), ['ok', 'ok', 'ok'])
        const writes = [client.insert(point), client.insertBatch([point]), client.delete(own)]
        assert.deepEqual(await Promise.all(writes.map(outcomeOf)), [changing, changing, changing])
        await client.close()
      }
    }
  })

  it('lets only operators change the cluster', async () => {
    await using directory = await temporaryDirectory()
    const adminKey = 'a-key-that-may-do-everything-else'
    const file = await keysFile(directory.path, `write importer ${writeKey}`, `admin operator ${adminKey}`)
    await using cluster = await startTestCluster(['a'], { API_KEYS_FILE: file })
    const [{ httpUrl }] = cluster.services as [TestService]
    const drain = async (key: string): Promise<Response> =>
      await fetch(`${httpUrl}/cluster/nodes/a/drain`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
      })
    const refused = await drain(writeKey)
    assert.equal(refused.status, 403)
    assert.match(
      await refused.text(),
      /the key importer may only read and write points and collections: .* the role admin/,
    )
    assert.equal((await drain(adminKey)).status, 204)
  })

  it('is read again when it changes; an invalid one changes nothing', async () => {
    await using directory = await temporaryDirectory()
    const file = await keysFile(directory.path, `read dashboard ${readKey}`)
    const settings = { API_KEYS_FILE: file }
    await using service = await ServerProcess.start(join(directory.path, 'data'), settings)
    assert.equal(await accepts(service, readKey), true)
    assert.equal(await accepts(service, writeKey), false)
    await keysFile(directory.path, `write importer ${writeKey}`)
    await until(async () => (await accepts(service, writeKey)) === true)
    await until(async () => (await accepts(service, readKey)) === false)
    await keysFile(directory.path, 'nonsense')
    await service.command.says(/API_KEYS_FILE cannot be used: the keys read before stay in force/)
    assert.equal(await accepts(service, writeKey), true)
    await rm(file)
    await keysFile(directory.path, `write importer ${writeKey}`, `read dashboard ${readKey}`)
    await until(async () => (await accepts(service, readKey)) === true)
  })
})

describe('the command keys', () => {
  it('creates and revokes keys, of which the file has only the hashes', async () => {
    await using directory = await temporaryDirectory()
    const environment = { API_KEYS_FILE: join(directory.path, 'keys') }
    const keys = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await run(['keys', ...args], environment)
      assert.equal(code, 0, stderr)
      return stdout.trim()
    }
    const first = await keys('create', 'importer', '--role', 'write')
    const limits = ['--collections', 'docs-*,notes', '--filter', '{"tenant": "acme"}']
    await keys('create', 'acme', ...limits, '--expires-at', '2100-01-01T00:00:00Z')
    const text = await readFile(environment.API_KEYS_FILE, 'utf8')
    assert.ok(!text.includes(first), text)
    assert.equal(
      await keys('list'),
      'importer  write\nacme  read  collections docs-*,notes  filter {"tenant":"acme"}  expires 2100-01-01T00:00:00.000Z',
    )
    await using service = await startTestService(environment)
    assert.equal(await accepts(service, first), true)
    await keys('revoke', 'importer')
    await until(async () => (await accepts(service, first)) === false)
    for (const [args, fault] of [
      [['create', 'acme'], /there is a key with the name acme: revoke it first/],
      [['create', 'x', '--filter', '{"$id": "y"}'], /has an invalid filter/],
      [['create', 'x', '--role', 'admin', '--collections', 'a'], /restricts a key with the role admin/],
      [['revoke', 'importer'], /no key of API_KEYS_FILE has this name/],
    ] as const) {
      const { code, stderr } = await run(['keys', ...args], environment)
      assert.equal(code, 1)
      assert.match(stderr, fault)
    }
    assert.match(await keys('list'), /^acme/)
  })
})

describe('a read-only key', () => {
  it('can read metrics but not take snapshots or delete, and refusals say why', async () => {
    await using directory = await temporaryDirectory()
    const file = await keysFile(directory.path, `read dashboard ${readKey}`)
    await using service = await startTestService({ API_KEYS_FILE: file })
    const ask = async (method: string, path: string): Promise<[number, string]> => {
      const response = await fetch(service.httpUrl + path, {
        method,
        headers: { authorization: `Bearer ${readKey}` },
      })
      return [response.status, await response.text()]
    }
    assert.deepEqual(await ask('POST', '/snapshots'), [
      403,
      'the key dashboard may only read: POST /snapshots needs one with the role write',
    ])
    assert.equal((await ask('DELETE', '/points/x'))[0], 403)
    assert.equal((await ask('GET', '/metrics'))[0], 200)
    assert.equal((await ask('GET', '/nowhere'))[0], 404)
    assert.equal((await ask('PUT', '/points'))[0], 405)
    using raw = new RawGrpc(service.grpcAddress, readKey)
    const refused = await raw.call('DeletePoint', { id: { value: 'x' } })
    assert.deepEqual(
      [refused.code, refused.text],
      [
        status.PERMISSION_DENIED,
        'the key dashboard may only read: DeletePoint needs one with the role write',
      ],
    )
    // Its key is neither missing nor wrong.
    for (const transport of ['grpc', 'http']) {
      const text = await (
        await fetch(`${service.httpUrl}/metrics`, { headers: { authorization: readKey } })
      ).text()
      assert.ok(text.includes(`\nvicinal_refused_keys{transport="${transport}"} 0\n`))
    }
  })
})

describe('an invalid key file', () => {
  it('fails the start with the line and the fault, and without showing a key', async () => {
    await using directory = await temporaryDirectory()
    const start = async (file: string): Promise<string> => {
      const settings = { DATA_DIR: directory.path, API_KEYS_FILE: file, GRPC_PORT: '0', HTTP_PORT: '0' }
      const { code, stderr } = await run(['serve'], settings)
      assert.equal(code, 1)
      assert.doesNotMatch(stderr, /a-key-that/)
      return stderr
    }
    for (const [lines, fault] of [
      [
        [`reed x ${readKey}`],
        /keys:1 \(API_KEYS_FILE\) has the role "reed", it must be read, write or admin/,
      ],
      [['# x', readKey], /keys:2 \(API_KEYS_FILE\) is not like `read dashboard <key>`/],
      [['read x short'], /keys:1 .* 16 or more visible ASCII characters/],
      [[`read x ${readKey}`, `read x ${writeKey}`], /keys:2 .* has the name x again/],
      [[`read x ${readKey}`, `write y ${readKey}`], /keys:2 .* has the key of another line/],
    ] as const) {
      assert.match(await start(await keysFile(directory.path, ...lines)), fault)
    }
    const open = await keysFile(directory.path, `read x ${readKey}`)
    await chmod(open, 0o644)
    assert.match(await start(open), /keys \(API_KEYS_FILE\) has mode 644, .* chmod 600/)
    assert.match(await start(directory.path), /\(API_KEYS_FILE\) is a directory, it must be a file/)
    assert.match(await start(join(directory.path, 'none')), /none \(API_KEYS_FILE\) cannot be read: ENOENT/)
  })
})

describe('a key that the service has generated', () => {
  it('stays in its file while GRPC_ROOT_PASSWORD sets another, and is not valid', async () => {
    await using directory = await temporaryDirectory()
    const path = join(directory.path, 'api-key')
    const stop = async (server: ServerProcess): Promise<string> => {
      server.command.kill('SIGTERM')
      return (await server.command.ended).stdout
    }
    await stop(await ServerProcess.start(directory.path))
    const made = await readFile(path, 'utf8')

    await using server = await ServerProcess.start(directory.path, { GRPC_ROOT_PASSWORD: apiKey })
    const environment = { DATA_DIR: directory.path }
    const call = ['get', '00000000-0000-4000-8000-000000000000', '--grpc', server.grpcAddress]
    const stale = await run(call, environment)
    assert.match(stale.stderr, /invalid API key .*\(the key came from \S+api-key; use --api-key-file /)
    const wrong = await run(call, { ...environment, GRPC_ROOT_PASSWORD: 'another-key' })
    assert.match(
      wrong.stderr,
      /invalid API key .*\(the key came from GRPC_ROOT_PASSWORD; use --api-key-file to name another\)/,
    )
    const right = await run(call, { ...environment, GRPC_ROOT_PASSWORD: apiKey })
    assert.match(right.stderr, /Point not found/)
    const log = await stop(server)
    assert.match(log, /"grpc":\["GRPC_ROOT_PASSWORD"\],"http":"open","msg":"API keys in force"/)
    assert.equal(await readFile(path, 'utf8'), made)
  })
})
