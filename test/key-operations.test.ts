import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFile, chmod, chown, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { after, before, describe, it } from 'node:test'
import { replaceFileAsync } from '../src/base/files.ts'
import { DateTime, GeoPoint, type KeyInfo, type VectorClient } from '../src/client/index.ts'
import { removeKey } from '../src/service/keys-file.ts'
import { assertEnded, run, temporaryDirectory } from './support/process.ts'
import { clientOf, fileOfKeys, secretOf, transports } from './support/restricted-keys.ts'
import { apiKey, startServedBy, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** Keys that admins create, list and revoke through the service. The matrix of rights shows who else may. */

const isWindows = process.platform === 'win32'

const limited: KeyInfo = {
  name: 'acme',
  role: 'write',
  collections: ['docs-*', 'default'],
  filter: {
    $and: [
      { tenant: 'acme' },
      { level: { $gte: 1.5, $lt: 1e9 } },
      { $or: [{ kind: { $in: ['x', 'y\u2028z"'] } }, { $not: { tags: { $all: ['a', 'b'] } } }] },
      { at: { $gt: new Date('2026-01-01T00:00:00Z') } },
      { moment: new DateTime(1_700_000_000_000_001) },
      { name: { $prefix: 'ab' } },
      { '{"odd path': true },
      { place: new GeoPoint(1, 2) },
      { flag: { $exists: true } },
    ],
  },
  expiresAt: new Date('2040-01-01T00:00:00.500Z'),
  quotas: { points: 1e12, requestsPerSecond: 100, searchesInFlight: 8 },
}

for (const threads of [0, 2]) {
  describe(`the keys of a service with ${threads} serving threads`, () => {
    const stack = new AsyncDisposableStack()
    let service: TestService
    let path: string

    before(async () => {
      const directory = stack.use(await temporaryDirectory())
      path = await fileOfKeys(directory.path)
      service = stack.use(await startServedBy(threads, { API_KEYS_FILE: path, AUDIT: 'writes' }))
    })
    after(() => stack.disposeAsync())

    it('are created and revoked at once for all threads and transports', async () => {
      for (const transport of transports) {
        const admin = clientOf(service, transport, secretOf('admin'))
        const { key, ...info } = await admin.keys.create({ name: `made-over-${transport}`, role: undefined })
        assert.deepEqual(info, { name: `made-over-${transport}`, role: 'read' })
        assert.match(key, /^[\w-]{43}$/)
        const users = Array.from({ length: 6 }, (_, user) => clientOf(service, transports[user % 2]!, key))
        for (const user of users) {
          assert.equal(await user.count(), 0)
          await assert.rejects(user.keys.list(), { reason: 'permission_denied' })
        }
        assert.ok(!(await readFile(path, 'utf8')).includes(key))
        await admin.keys.revoke(info.name)
        for (const user of users) {
          await assert.rejects(user.count(), { reason: 'unauthenticated' })
          await user.close()
        }
        await assert.rejects(admin.keys.revoke(info.name), { reason: 'not_found' })
        // Connections to several threads hand over their lines one after another: they are nearly in order.
        const revocations: (string | undefined)[] = []
        await until(async () => {
          const { records } = await admin.audit({ key: 'operator', operation: 'RevokeKey' })
          revocations.splice(0, Infinity, ...records.map(({ target, error }) => `${target} ${error}`))
          return revocations.length === 2 * (1 + transports.indexOf(transport))
        })
        assert.deepEqual(revocations.slice(0, 2).sort(), [`${info.name} undefined`, 'undefined not_found'])
        await admin.close()
      }
    })

    it('are what they were made, in the file and after a restart', async () => {
      const [grpc, http] = transports.map((transport) => clientOf(service, transport, secretOf('admin')))
      const made: KeyInfo[] = []
      for (const [client, name] of [
        [grpc!, 'acme'],
        [http!, 'globex'],
      ] as const) {
        const { key, ...info } = await client.keys.create({ ...limited, name })
        assert.deepEqual(info, { ...limited, name })
        made.push(info)
        const again = client.keys.create({ name })
        await assert.rejects(again, {
          reason: 'already_exists',
          message: `there is a key with the name ${name}: revoke it first`,
        })
      }
      const line = /^write acme sha256:[0-9a-f]{64} \{"collections":\["docs-\*","default"\],"filter":\{/m
      assert.match(await readFile(path, 'utf8'), line)
      await Promise.all([grpc!.close(), http!.close()])
      await service.restart()
      for (const transport of transports) {
        const client = clientOf(service, transport, secretOf('admin'))
        const all = await client.keys.list()
        assert.deepEqual(all.slice(-2), made)
        assert.deepEqual(
          all.find(({ name }) => name === 'b-writer'),
          { name: 'b-writer', role: 'write', collections: ['docs-*'], filter: { tenant: 'b' } },
        )
        await client.close()
      }
    })

    it('cannot be wider than a file allows, or outlive their maker', async () => {
      for (const transport of transports) {
        const admin = clientOf(service, transport, secretOf('admin'))
        const faults: readonly (readonly [object, RegExp])[] = [
          [{ role: 'admin', filter: { tenant: 'a' } }, /^the key restricts a key with the role admin/],
          [{ filter: {} }, /^the key has an invalid filter: it tests no attribute/],
          [{ filter: { $id: '11111111-2222-4333-8444-555555555555' } }, /^the key has an invalid filter/],
          [{ expiresAt: new Date('2020-01-01') }, /^the key has an expires_at that has passed/],
          [{ collections: ['A*'] }, /^the key has invalid collections/],
          [{ collections: [] }, /^collections is empty/],
          [{ quotas: { points: 1 } }, /^the key has quotas.points without a filter/],
          [{ quotas: { requestsPerSecond: 0 } }, /requests_per_second: it is a whole number from 1/],
          [{ name: '..' }, /^name is/],
          [{ name: 'GRPC_ROOT_PASSWORD' }, /^name is/],
          [{ role: 'root' }, /^role is/],
        ]
        for (const [fault, message] of faults) {
          const call = admin.keys.create({ name: 'wider', ...fault })
          await assert.rejects(call, { reason: 'invalid_argument', message }, JSON.stringify(fault))
        }
        const name = `until-${transport}`
        const expiresAt = new Date(Date.now() + 3_600_000)
        const { key } = await admin.keys.create({ name, role: 'admin', expiresAt })
        const passing = clientOf(service, transport, key)
        for (const later of [undefined, new Date(expiresAt.getTime() + 1)]) {
          const call = passing.keys.create({ name: 'later', expiresAt: later })
          await assert.rejects(call, {
            reason: 'permission_denied',
            message: /may only create keys that expire by then/,
          })
        }
        await passing.keys.create({ name: `by-${name}`, expiresAt })
        const slow = { name: `slow-${name}`, role: 'admin', quotas: { requestsPerSecond: 1000 } } as const
        const bounded = clientOf(service, transport, (await admin.keys.create(slow)).key)
        await assert.rejects(bounded.keys.create({ name: 'faster', role: 'admin' }), {
          reason: 'permission_denied',
          message: /has quotas: it may create no keys/,
        })
        for (const each of [name, `by-${name}`, slow.name]) await admin.keys.revoke(each)
        await Promise.all([admin, passing, bounded].map((client) => client.close()))
      }
      const misspelt = await fetch(`${service.httpUrl}/keys`, {
        method: 'POST',
        headers: { authorization: secretOf('admin'), 'content-type': 'application/json' },
        body: '{"name":"misspelt","colections":["docs"]}',
      })
      assert.equal(misspelt.status, 400)
      assert.match(await misspelt.text(), /^colections is not known: a key has name, role,/)
    })

    it('are not changed in a file that cannot be read', async () => {
      const admin = clientOf(service, 'grpc', secretOf('admin'))
      const text = await readFile(path, 'utf8')
      // At once: an empty file, for a moment, would be one without keys.
      await replaceFileAsync(path, 'nonsense\n')
      for (const call of callsOf(admin)) {
        await assert.rejects(call, {
          reason: 'precondition_failed',
          message: /keys:1 \(API_KEYS_FILE\) is not like/,
        })
      }
      await replaceFileAsync(path, text)
      await admin.keys.revoke('acme')
      await admin.close()
    })
  })
}

function callsOf({ keys }: VectorClient): (() => Promise<unknown>)[] {
  return [() => keys.create({ name: 'x' }), () => keys.list(), () => keys.revoke('acme')]
}

describe('a service without a file of keys', () => {
  it('names the setting', async () => {
    await using service = await startServedBy(0)
    for (const transport of transports) {
      const client = clientOf(service, transport, apiKey)
      for (const call of callsOf(client)) {
        await assert.rejects(call, { reason: 'precondition_failed', message: /set API_KEYS_FILE/ })
      }
      await client.close()
    }
  })
})

describe('a file of keys that several processes change', () => {
  it('loses no change, and the keys of all are in force', async () => {
    await using directory = await temporaryDirectory()
    const path = await fileOfKeys(directory.path)
    await using service = await startServedBy(0, { API_KEYS_FILE: path })
    const admin = clientOf(service, 'grpc', secretOf('admin'))
    const names = Array.from({ length: 40 }, (_, key) => `by-service-${key}`)
    const commands = ['by-command-1', 'by-command-2', 'by-command-3'].map(async (name) => {
      const { code, stdout, stderr } = await run(['keys', 'create', name, '--file', path])
      assert.equal(code, 0, stderr)
      return stdout.trim()
    })
    const made: string[] = []
    for (const name of names) made.push((await admin.keys.create({ name })).key)
    made.push(...(await Promise.all(commands)))
    const listed = (await admin.keys.list()).map(({ name }) => name)
    for (const name of [...names, 'by-command-1', 'by-command-2', 'by-command-3']) {
      assert.ok(listed.includes(name), name)
    }
    for (const key of made) {
      const user = clientOf(service, 'grpc', key)
      await until(async () => (await user.count().catch(() => -1)) === 0)
      await user.close()
    }
    await admin.close()
  })

  it('waits while another one changes it, keeps its owner and mode, and says what a killed one has left', async () => {
    await using directory = await temporaryDirectory()
    const path = await fileOfKeys(directory.path)
    const isRoot = process.getuid?.() === 0
    if (isRoot) await chown(path, 12_345, 12_346)
    await chmod(path, 0o640)
    await writeFile(`${path}.new`, '')
    const busy = await run(['keys', 'create', 'never', '--file', path])
    assertEnded(
      busy,
      1,
      /is being changed by another process: if one was killed while it did, delete .*keys\.new/,
    )
    const named = await run(['keys', 'create', 'two words', '--file', path])
    assertEnded(named, 2, /the name of the key is "two words": it must be 1 to 64 letters/)
    const waiting = run(['keys', 'create', 'late', '--file', path])
    await appendFile(path, `read meanwhile ${'m'.repeat(20)}\n`)
    await rm(`${path}.new`)
    const { code, stderr } = await waiting
    assert.equal(code, 0, stderr)
    const text = await readFile(path, 'utf8')
    assert.match(text, /^read meanwhile m{20}\nread late sha256:/m)
    const { mode, uid, gid } = await stat(path)
    assert.equal(mode & 0o777, 0o640)
    if (isRoot) assert.deepEqual([uid, gid], [12_345, 12_346])
  })

  it('leaves the lock of another process when a change fails before it has one', {
    skip: isWindows,
  }, async () => {
    await using directory = await temporaryDirectory()
    const path = await fileOfKeys(directory.path)
    const before = await readFile(path, 'utf8')
    const script = `
      import { addKey } from ${JSON.stringify(new URL('../src/service/keys-file.ts', import.meta.url).href)}
      import { openSync } from 'node:fs'
      try { for (;;) openSync('/dev/null') } catch {}
      const { code } = await addKey(process.argv[1], { role: 'read', name: 'never' }, 'n'.repeat(20)).catch((error) => error)
      console.log(code)`
    await writeFile(`${path}.new`, 'of another process')
    const args = [
      '-c',
      'ulimit -n 60; exec "$@"',
      'sh',
      process.execPath,
      '--input-type=module',
      '-e',
      script,
      path,
    ]
    const { stdout, stderr } = spawnSync('sh', args, { encoding: 'utf8' })
    assert.equal(stdout, 'EMFILE\n', stderr)
    assert.equal(await readFile(`${path}.new`, 'utf8'), 'of another process')
    await rm(`${path}.new`)
    // What it has created itself does not stay.
    await assert.rejects(removeKey(path, 'nobody'), { reason: 'not_found' })
    await assert.rejects(stat(`${path}.new`), { code: 'ENOENT' })
    assert.equal(await readFile(path, 'utf8'), before)
  })
})
