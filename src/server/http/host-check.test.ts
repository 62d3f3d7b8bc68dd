import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHostCheck } from './refusals.ts'

const open = { isLocal: true, hasKeys: false, corsOrigins: [] as string[] }

describe('a server on loopback without a key', () => {
  const isAllowed = createHostCheck(open)

  it('accepts addresses and names that nobody can register, with and without a port', () => {
    for (const name of ['127.0.0.1', '192.0.2.7', '[::1]', 'localhost', 'LocalHost.', 'x', 'app.localhost']) {
      for (const header of [name, `${name}:3000`]) assert.equal(isAllowed(header), true, header)
    }
    assert.ok(isAllowed('host.docker.internal:3000'))
    assert.ok(isAllowed(undefined))
  })

  it('accepts no other name, even if it resembles one of these', () => {
    for (const name of [
      'example.org',
      'localhost.example.org',
      '127.0.0.1.example.org',
      '127.0.0.1.nip.io',
      'localhost.example.org.',
      'internal.example.org',
      '[example.org]',
    ]) {
      for (const header of [name, `${name}:3000`]) assert.equal(isAllowed(header), false, header)
    }
  })

  it('accepts the configured names, in upper and lower case', () => {
    const isNamed = createHostCheck({ ...open, corsOrigins: ['https://db.example.org:8443'] })
    assert.ok(isNamed('db.example.org:443'))
    assert.ok(!isNamed('other.example.org'))
  })
})

describe('a server with a key, or one that other machines can reach', () => {
  it('accepts any name', () => {
    assert.ok(createHostCheck({ ...open, hasKeys: true })('example.org'))
    assert.ok(createHostCheck({ ...open, isLocal: false })('example.org'))
  })
})
