import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createOriginCheck } from './refusals.ts'

const app = 'https://app.example.org'
const host = 'localhost:3000'
const isAllowed = createOriginCheck({ hasKeys: false, corsOrigins: [app] })

describe('the origin of a request to an open server', () => {
  it('does not matter for asking for permission', () => {
    assert.ok(isAllowed('OPTIONS', { host, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }))
  })

  it('is not in requests for images, whose site is', () => {
    for (const method of ['GET', 'HEAD']) {
      assert.ok(!isAllowed(method, { host, 'sec-fetch-site': 'cross-site' }))
      assert.ok(!isAllowed(method, { host, 'sec-fetch-site': 'same-site' }))
      assert.ok(isAllowed(method, { host, 'sec-fetch-site': 'same-origin' }))
      assert.ok(isAllowed(method, { host, 'sec-fetch-site': 'none' }))
      assert.ok(isAllowed(method, { host }))
    }
  })

  it('may be the server itself, or one of CORS_ORIGINS', () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      assert.ok(isAllowed(method, { host, origin: 'http://localhost:3000', 'sec-fetch-site': 'same-origin' }))
      assert.ok(isAllowed(method, { host, origin: app, 'sec-fetch-site': 'cross-site' }))
      assert.ok(isAllowed(method, { host, origin: app }))
    }
  })

  it('is not known for clients that are not browsers', () => {
    assert.ok(isAllowed('POST', { host }))
    assert.ok(isAllowed('POST', {}))
  })

  it('is refused if it is another one', () => {
    for (const site of ['cross-site', 'same-site', 'unheard-of']) {
      assert.ok(!isAllowed('POST', { host, origin: 'https://evil.example', 'sec-fetch-site': site }), site)
      assert.ok(!isAllowed('POST', { host, 'sec-fetch-site': site }), site)
    }
  })

  it('is compared with the host if the browser does not say whether the page is of the same origin', () => {
    assert.ok(isAllowed('POST', { host: '10.0.0.7:3000', origin: 'http://10.0.0.7:3000' }))
    assert.ok(isAllowed('POST', { host: 'DB.example.org', origin: 'https://db.example.org' }))
    assert.ok(isAllowed('POST', { host: '[::1]:3000', origin: 'http://[::1]:3000' }))
    for (const origin of ['http://10.0.0.7:8080', 'http://10.0.0.8:3000', 'null', 'nonsense', '']) {
      assert.ok(!isAllowed('POST', { host: '10.0.0.7:3000', origin }), origin)
    }
    assert.ok(!isAllowed('POST', { origin: 'null' }))
  })

  it('does not matter if the server has keys', () => {
    const check = createOriginCheck({ hasKeys: true, corsOrigins: [] })
    assert.ok(check('POST', { host, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }))
  })
})
