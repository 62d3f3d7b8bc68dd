import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { parse } from 'yaml'
import { DatabaseError } from '../src/base/errors.ts'
import { startFailingHttpServer } from './support/failing-http-server.ts'
import { freePort } from './support/free-ports.ts'
import { figureIn, figureOf } from './support/metrics.ts'
import { type RawAnswer, RawHttp } from './support/raw-http.ts'
import { startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** HTTP over raw sockets: malformed input that no proper client sends, and what web pages need. */

const maxRequestBytes = 20_000
const json = 'content-type: application/json'
const unknownId = '11111111-2222-4333-8444-555555555555'
const payload = '{"content_type":"Text","content":"x"}'
const pointBody = `{"vector":[1,2],"payload":${payload}}`

function assertPlain(answer: RawAnswer, status: number, text: RegExp | string): void {
  assert.equal(answer.status, status, answer.body)
  assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
  if (typeof text === 'string') assert.equal(answer.body, text)
  else assert.match(answer.body, text)
}

describe('the HTTP server', { timeout: 300_000 }, () => {
  let service: TestService
  let port: number

  before(async () => {
    service = await startTestService({
      DIMENSION: '2',
      MAX_REQUEST_BYTES: String(maxRequestBytes),
    })
    port = service.service.httpAddress!.port
  })
  after(() => service[Symbol.asyncDispose]())

  /** One answer, over a new connection. */
  async function ask(line: string, headers: readonly string[] = [], body: string | Uint8Array = '') {
    using connection = await RawHttp.open(port)
    connection.request(line, headers, body)
    return await connection.answer(line.startsWith('HEAD'))
  }

  const post = (path: string, body: string | Uint8Array): Promise<RawAnswer> =>
    ask(`POST ${path}`, [json], body)

  async function stored(body: string): Promise<{ vector: number[]; payload: { content: string } }> {
    const answer = await post('/points', body)
    assert.equal(answer.status, 201, answer.body)
    return JSON.parse((await ask(`GET /points/${JSON.parse(answer.body).point_id}`)).body)
  }

  describe('bounds', () => {
    it('refuses a body by its declared length, before it arrives, and keeps the connection', async () => {
      using connection = await RawHttp.open(port)
      connection.write(`POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: 20001\r\n\r\n`)
      assertPlain(await connection.answer(), 413, /20000 bytes \(MAX_REQUEST_BYTES\)/)
      connection.write(Buffer.alloc(20_001, ' '))
      connection.request('GET /health')
      assert.equal((await connection.answer()).body, 'OK')
    })

    it('refuses a chunked body when it exceeds the bound, and keeps the connection', async () => {
      using connection = await RawHttp.open(port)
      connection.write(`POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\n`)
      const chunk = `2710\r\n${' '.repeat(10_000)}\r\n`
      connection.write(chunk + chunk + chunk)
      assertPlain(await connection.answer(), 413, /20000 bytes \(MAX_REQUEST_BYTES\)/)
      connection.write(`${chunk}0\r\n\r\n`)
      connection.request('GET /health')
      assert.equal((await connection.answer()).body, 'OK')
    })

    it('refuses a far too large body, even if the client sends before it reads', async () => {
      const body = new Uint8Array(20_000_000)
      const response = await fetch(`${service.httpUrl}/points`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      assert.equal(response.status, 413)
    })

    it('accepts a body of exactly the bound, in one piece or in chunks', async () => {
      const body = `{"vector":[1,2],"payload":${payload},"pad":"`
        .padEnd(maxRequestBytes - 2, 'x')
        .concat('"}')
      assert.equal(body.length, maxRequestBytes)
      assert.equal((await post('/points', body)).status, 201)
      using connection = await RawHttp.open(port)
      connection.write(`POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\n`)
      for (const part of [body.slice(0, 1), body.slice(1)]) {
        connection.write(`${part.length.toString(16)}\r\n${part}\r\n`)
      }
      connection.write('0\r\n\r\n')
      assert.equal((await connection.answer()).status, 201)
    })

    it('refuses headers that are too large with 431', async () => {
      using connection = await RawHttp.open(port)
      connection.write(`GET /health HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`)
      assertPlain(await connection.answer(), 431, /the headers are larger than \d+ bytes/)
      await connection.closed()
    })

    it('refuses a path that is too long', async () => {
      assertPlain(await ask(`GET /points/${'a'.repeat(5000)}`), 400, /malformed or too long/)
    })
  })

  describe('a request that arrives in part', { concurrency: true }, () => {
    let impatient: TestService
    before(async () => {
      impatient = await startTestService({ requestTimeoutMs: 10_000 })
    })
    after(() => impatient[Symbol.asyncDispose]())

    const late = {
      nothing: '',
      'half a request line': 'GET /hea',
      'unterminated headers': 'GET /health HTTP/1.1\r\nhost: x\r\n',
      'half a body': `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: 50\r\n\r\n{"vector"`,
      'half a chunk': `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{`,
    }
    for (const [name, text] of Object.entries(late)) {
      it(`times out after ${name}, while other connections are served`, async () => {
        using connection = await RawHttp.open(impatient.service.httpAddress!.port)
        connection.write(text)
        using other = await RawHttp.open(impatient.service.httpAddress!.port)
        other.request('GET /health')
        assert.equal((await other.answer()).body, 'OK')
        assertPlain(await connection.answer(), 408, /did not arrive in time/)
        await connection.closed()
      })
    }
  })

  describe('requests that are not HTTP', () => {
    const malformed = {
      'a missing request line': 'garbage\r\n\r\n',
      'another version': 'GET /health HTTP/9.9\r\nhost: x\r\n\r\n',
      'another protocol': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'a header without a colon': 'GET /health HTTP/1.1\r\nhost\r\n\r\n',
      'a null byte in a header': 'GET /health HTTP/1.1\r\nhost: x\0\r\n\r\n',
      'a content length that is not a number':
        'POST /points HTTP/1.1\r\nhost: x\r\ncontent-length: ten\r\n\r\n',
      'a content length with a chunked body': `POST /points HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n`,
      'a chunk size that is not a number': `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`,
      'an unknown method': 'FETCH /points HTTP/1.1\r\nhost: x\r\n\r\n',
    }
    for (const [name, text] of Object.entries(malformed)) {
      it(`answers ${name} with 400 in plain text and closes`, async () => {
        using connection = await RawHttp.open(port)
        connection.write(Buffer.from(text, 'latin1'))
        assertPlain(await connection.answer(), 400, 'the request is not valid HTTP')
        await connection.closed()
        assert.equal((await ask('GET /health')).body, 'OK')
      })
    }

    it('answers a request without a host with 400', async () => {
      using connection = await RawHttp.open(port)
      connection.write('GET /health HTTP/1.1\r\n\r\n')
      assertPlain(await connection.answer(), 400, 'the host header is missing')
    })

    it('answers a request with several hosts with 400', async () => {
      for (const second of ['Host: evil.example', 'HOST: localhost']) {
        using connection = await RawHttp.open(port)
        connection.write(`GET /health HTTP/1.1\r\nhost: localhost\r\n${second}\r\n\r\n`)
        assertPlain(await connection.answer(), 400, 'the host header is there more than once')
      }
    })

    it('serves HTTP/1.0, which has no host header', async () => {
      using connection = await RawHttp.open(port)
      connection.write('GET /health HTTP/1.0\r\n\r\n')
      assert.equal((await connection.answer()).body, 'OK')
    })

    it('answers an unknown expectation with 417, and 100-continue with 100', async () => {
      assertPlain(await ask('POST /points', ['expect: magic']), 417, 'no such expectation: magic')
      using connection = await RawHttp.open(port)
      connection.write(
        `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\nexpect: 100-continue\r\ncontent-length: ${pointBody.length}\r\n\r\n`,
      )
      assert.equal((await connection.answer(true)).status, 100)
      connection.write(pointBody)
      assert.equal((await connection.answer()).status, 201)
    })

    it('is not a proxy', async () => {
      assertPlain(await ask('CONNECT example.org:443'), 405, /CONNECT is not allowed/)
    })

    it('answers malformed escapes in a path with 400', async () => {
      assertPlain(await ask('GET /points/%zz'), 400, /malformed or too long/)
      assertPlain(await ask('GET /points/%00'), 400, /^id .* is not a UUID$/)
    })
  })

  describe('content types', () => {
    const taken = [
      'application/json',
      'Application/JSON',
      'application/json;charset=utf-8',
      'application/json; charset="UTF-8"',
      'application/json ; charset=utf8',
      'application/json; profile="x"',
    ]
    const refused = [
      'text/plain',
      'text/json',
      'application/jsonx',
      'application/vnd.api+json',
      'application/json; charset=latin1',
      'application/json; charset=utf-16',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'json',
      '@@',
    ]
    for (const type of taken) {
      it(`accepts ${type}`, async () => {
        assert.equal((await ask('POST /points', [`content-type: ${type}`], pointBody)).status, 201)
      })
    }
    for (const type of refused) {
      it(`refuses ${type} with 415`, async () => {
        const answer = await ask('POST /points', [`content-type: ${type}`], pointBody)
        assertPlain(answer, 415, /application\/json|UTF-8/)
      })
    }

    it('refuses a body without a content type with 415', async () => {
      assertPlain(await ask('POST /points', [], pointBody), 415, /application\/json/)
      assertPlain(await ask('POST /points', ['content-type:'], pointBody), 415, /application\/json/)
    })

    for (const encoding of ['gzip', 'br, identity', 'x']) {
      it(`refuses content-encoding ${encoding} with 415`, async () => {
        const headers = [json, `content-encoding: ${encoding}`]
        assertPlain(await ask('POST /points', headers, pointBody), 415, /send the body uncompressed/)
      })
    }

    it('accepts content-encoding identity', async () => {
      assert.equal((await ask('POST /points', [json, 'content-encoding: identity'], pointBody)).status, 201)
    })

    it('accepts a DELETE with any content type, with or without a body', async () => {
      for (const type of ['text/plain', 'application/octet-stream', 'application/x-www-form-urlencoded']) {
        const headers = [`content-type: ${type}`]
        assert.equal((await ask(`DELETE /points/${unknownId}`, headers, '')).status, 204)
        assert.equal((await ask(`DELETE /points/${unknownId}`, headers, 'x')).status, 204)
      }
    })

    it('accepts a DELETE with a JSON content type and no body, which some clients send', async () => {
      for (const headers of [[json], [json, 'content-length: 0'], [json, 'transfer-encoding: chunked']]) {
        using connection = await RawHttp.open(port)
        connection.request(`DELETE /points/${unknownId}`, headers)
        if (headers.includes('transfer-encoding: chunked')) connection.write('0\r\n\r\n')
        assert.equal((await connection.answer()).status, 204)
      }
      assert.equal((await ask(`DELETE /points/${unknownId}`, [json], '{}')).status, 204)
    })
  })

  describe('JSON', () => {
    const notJson = [
      '{',
      '{"vector"}',
      "{'vector':[1,2]}",
      '{"vector":[1,2,]}',
      '{"vector":[1 2]}',
      '{"vector":[01,2]}',
      '{"vector":[+1,2]}',
      '{"vector":[.5,2]}',
      '{"vector":[1.,2]}',
      '{"vector":[1e,2]}',
      '{"vector":[0x10,2]}',
      '{"vector":[NaN,2]}',
      '{"vector":[Infinity,-Infinity]}',
      '{}{}',
      '{} x',
      '// comment\n{}',
      '{"a":"\t"}',
      '{"a":"\\x41"}',
      '{"a":"\\u00g0"}',
      '{"a":"',
      'nul',
      'undefined',
      '\ufeff{}',
      ' ',
    ]
    for (const body of notJson) {
      it(`refuses ${JSON.stringify(body)}`, async () => {
        assertPlain(await post('/points', body), 400, /^the request body is not valid JSON: /)
      })
    }

    it('refuses bytes that are not UTF-8', async () => {
      for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xc3]]) {
        const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
        assertPlain(await post('/points', body), 400, 'the request body is not valid JSON: it is not UTF-8')
      }
    })

    it('quotes at most the beginning of a bad value', async () => {
      const answer = await post('/points', `{"a":"${'z'.repeat(15_000)}`)
      assertPlain(answer, 400, /not valid JSON/)
      assert.ok(answer.body.length < 300)
    })

    const wrong: readonly (readonly [string, string, RegExp])[] = [
      ['/points', 'null', /^the request body is null, it must be an object$/],
      ['/points', '1', /^the request body is a number, it must be an object$/],
      ['/points', '"x"', /^the request body is a string, it must be an object$/],
      ['/points', 'true', /^the request body is a boolean, it must be an object$/],
      ['/points', '[]', /^the request body is an array, it must be an object$/],
      ['/points', `{"vector":null,"payload":${payload}}`, /^vector is null, it must be an array of numbers$/],
      ['/points', `{"vector":{"0":1},"payload":${payload}}`, /^vector is an object/],
      [
        '/points',
        `{"vector":[1,[2]],"payload":${payload}}`,
        /^vector\[1\] is an array, it must be a number$/,
      ],
      ['/points', `{"vector":[1,"2"],"payload":${payload}}`, /^vector\[1\] is a string/],
      [
        '/points',
        `{"vector":[1,1e400],"payload":${payload}}`,
        /^vector\[1\] is Infinity, beyond what float32/,
      ],
      ['/points', `{"vector":[-1e400,1],"payload":${payload}}`, /^vector\[0\] is -Infinity/],
      ['/points', `{"vector":[3.4028236e38,1],"payload":${payload}}`, /^vector\[0\] is 3.4028236e\+38/],
      ['/points', '{"vector":[1,2],"payload":null}', /^payload is null, it must be an object$/],
      ['/points', '{"vector":[1,2],"payload":[]}', /^payload is an array/],
      [
        '/points',
        '{"vector":[1,2],"payload":{"content_type":1,"content":""}}',
        /^payload.content_type is a number/,
      ],
      [
        '/points',
        '{"vector":[1,2],"payload":{"content_type":"text","content":""}}',
        /^payload.content_type is "text"/,
      ],
      [
        '/points',
        '{"vector":[1,2],"payload":{"content_type":"Text","content":1}}',
        /^payload.content is a number/,
      ],
      [
        '/points',
        '{"vector":[1,2],"payload":{"content_type":"Text","content":"\\ud800"}}',
        /^payload.content has half/,
      ],
      ['/points/batch', '{"vectors":{}}', /^vectors is an object, it must be an array$/],
      ['/points/batch', '{"vectors":null}', /^vectors is null/],
      ['/points/batch', '{"vectors":[null]}', /^vectors\[0\] is null, it must be an object$/],
      ['/points/batch', `{"vectors":[${pointBody},{"vector":[1,2]}]}`, /^vectors\[1\].payload is missing$/],
      [
        '/points/batch',
        `{"vectors":[${pointBody},{"vector":[1,null]}]}`,
        /^vectors\[1\].vector\[1\] is null/,
      ],
      ['/points/search', '{"vector":[1,2],"similarity":0,"limit":1}', /^similarity is a number/],
      ['/points/search', '{"vector":[1,2],"similarity":"cosine","limit":1}', /^similarity is "cosine"/],
      ['/points/search', '{"vector":[1,2],"similarity":"Cosine","limit":1e400}', /^limit is Infinity/],
      ['/points/search', '{"vector":[1,2],"similarity":"Cosine","limit":-0}', /^limit is 0/],
      ['/points/search', '{"vector":[1,2],"similarity":"Cosine","limit":null}', /^limit is null/],
      ['/points/search', '{"vector":[1,2],"similarity":"Cosine","limit":1,"ef":0.5}', /^ef is 0.5/],
      ['/points/search', '{"vector":[1,2],"similarity":"Cosine"}', /^limit is missing/],
      ['/points/search/batch', '{"queries":"x"}', /^queries is a string, it must be an array$/],
      ['/points/search/batch', '{"queries":[[]]}', /^queries\[0\] is an array/],
    ]
    for (const [path, body, text] of wrong) {
      it(`refuses ${body} at ${path}`, async () => assertPlain(await post(path, body), 400, text))
    }

    it('uses the last of a repeated key', async () => {
      const { vector } = await stored(`{"vector":[1],"vector":[3,4],"payload":{},"payload":${payload}}`)
      assert.deepEqual(vector, [3, 4])
      assertPlain(await post('/points/batch', '{"vectors":[],"vectors":[]}'), 400, 'vectors appears twice')
    })

    it('ignores __proto__ and similar keys, and changes no prototypes', async () => {
      assertPlain(await post('/points', `{"__proto__":${pointBody}}`), 400, 'vector is missing')
      assertPlain(
        await post('/points', `{"vector":[1,2],"payload":{"__proto__":${payload}}}`),
        400,
        /^payload.content_type is missing/,
      )
      await stored(
        `{"constructor":{"prototype":{"polluted":1}},"__proto__":{"polluted":1},${pointBody.slice(1)}`,
      )
      assert.equal('polluted' in {}, false)
    })

    it('rounds numbers to float32 once, keeps the sign of zero, and rounds tiny ones to zero', async () => {
      const cases: readonly (readonly [string, number])[] = [
        ['-0', -0],
        ['-0.0e5', -0],
        ['1e-400', 0],
        ['-1e-46', -0],
        ['16777217', 16_777_216],
        ['0.1', 0.10000000149011612],
        [`0.1${'0'.repeat(1000)}1`, 0.10000000149011612],
        ['3.4028235e38', 3.4028234663852886e38],
        ['123456789012345678901234567890', 1.2345678918272927e29],
      ]
      for (const [written, expected] of cases) {
        const { vector } = await stored(`{"vector":[${written},1],"payload":${payload}}`)
        assert.deepEqual(vector, [expected, 1], written)
      }
    })

    it('ignores deep nesting in unknown fields', async () => {
      const deep = '['.repeat(9_000) + ']'.repeat(9_000)
      assert.equal((await post('/points', `{"deep":${deep},${pointBody.slice(1)}`)).status, 201)
      assertPlain(
        await post('/points', `{"deep":${'['.repeat(15_000)}`),
        400,
        /nests values deeper than 10000/,
      )
      assertPlain(await post('/points', `{"deep":${'['.repeat(9_000)}`), 400, /not valid JSON: it ends/)
      assertPlain(await post('/points', `{"vector":${deep}}`), 400, /^vector\[0\] is an array/)
    })

    it('returns any valid UTF-8 text unchanged', async () => {
      const content = '\u0000\b"\\/\u2028\ufeff é 🦊 \uffff'
      const point = await stored(
        `{"vector":[1,2],"payload":{"content_type":"Text","content":${JSON.stringify(content)}}}`,
      )
      assert.equal(point.payload.content, content)
    })
  })

  describe('routes', () => {
    it('answers HEAD like GET, without the body', async () => {
      using connection = await RawHttp.open(port)
      for (const path of ['/', '/health', '/readyz', '/metrics', '/docs', '/docs/openapi.yaml']) {
        connection.request(`HEAD ${path}`)
        assert.equal((await connection.answer(true)).status, 200, path)
      }
      connection.request(`HEAD /points/${unknownId}`)
      assert.equal((await connection.answer(true)).status, 404)
      connection.request('GET /health')
      assert.equal((await connection.answer()).body, 'OK')
    })

    const refused: readonly (readonly [string, number, string | undefined])[] = [
      ['GET /points', 405, 'POST'],
      ['HEAD /points', 405, 'POST'],
      ['OPTIONS /points', 405, 'POST'],
      ['PUT /points', 405, 'POST'],
      ['PATCH /points', 405, 'POST'],
      ['TRACE /points', 405, 'POST'],
      ['QUERY /points', 405, 'POST'],
      ['PROPFIND /points', 405, 'POST'],
      ['GET /points/batch', 405, 'POST'],
      ['GET /points/search', 405, 'POST'],
      ['DELETE /points/search', 405, 'POST'],
      ['GET /points/search/batch', 405, 'POST'],
      [`POST /points/${unknownId}`, 405, 'GET, HEAD, DELETE, PUT, PATCH'],
      ['OPTIONS /health', 405, 'GET, HEAD'],
      ['POST /metrics', 405, 'GET, HEAD'],
      ['DELETE /docs/openapi.yaml', 405, 'GET, HEAD'],
      ['GET /nothing', 404, undefined],
      ['POST /nothing', 404, undefined],
      ['OPTIONS *', 404, undefined],
      ['GET //points', 404, undefined],
      ['GET /health/', 404, undefined],
      [`GET /points/${unknownId}/x`, 404, undefined],
      ['GET /docs/nothing', 404, undefined],
      ['GET /docs/static/nothing.js', 404, undefined],
      ['GET /docs/static/..%2f..%2fpackage.json', 404, undefined],
    ]
    for (const [line, status, allow] of refused) {
      it(`answers ${line} with ${status}`, async () => {
        const answer = await ask(line)
        assert.equal(answer.status, status, answer.body)
        assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
        assert.equal(answer.headers.allow, allow)
      })
    }

    it('refuses unknown routes and methods whatever the body', async () => {
      assertPlain(await ask('PUT /points', ['content-type: text/plain'], 'x'), 405, /only POST/)
      assertPlain(await ask('POST /nothing', ['content-type: text/plain'], 'x'), 404, /no such path/)
    })

    it('ignores a query string', async () => {
      assert.equal((await ask('GET /health?x=1')).body, 'OK')
      assertPlain(await ask('PUT /points?x=1'), 405, 'PUT is not allowed on /points, only POST')
    })

    it('keeps a connection after every error', async () => {
      using connection = await RawHttp.open(port)
      const requests: readonly (readonly [string, readonly string[], string, number])[] = [
        ['GET /nothing', [], '', 404],
        ['PUT /points', [json], '{}', 405],
        ['POST /points', [json], '{', 400],
        ['POST /points', ['content-type: text/plain'], 'x', 415],
        ['POST /points', [json], ' '.repeat(20_001), 413],
        [`GET /points/${unknownId}`, [], '', 404],
        ['GET /points/%zz', [], '', 400],
        ['POST /points', [json], pointBody, 201],
      ]
      for (const [line, headers, body, status] of requests) {
        connection.request(line, headers, body)
        assert.equal((await connection.answer()).status, status, line)
      }
    })

    it('answers pipelined requests in order', async () => {
      using connection = await RawHttp.open(port)
      connection.write(
        ['/health', '/nothing', '/readyz'].map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''),
      )
      assert.equal((await connection.answer()).body, 'OK')
      assert.equal((await connection.answer()).status, 404)
      assert.equal((await connection.answer()).body, 'ready')
    })

    it('survives clients that disconnect mid-request', async () => {
      for (const text of [
        'GET',
        `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: 100\r\n\r\n{`,
      ]) {
        const connection = await RawHttp.open(port)
        connection.write(text)
        connection[Symbol.dispose]()
      }
      const searching = await RawHttp.open(port)
      searching.request('POST /points/search', [json], '{"vector":[1,2],"similarity":"Cosine","limit":5}')
      searching[Symbol.dispose]()
      assert.equal((await ask('GET /health')).body, 'OK')
    })
  })

  describe('the docs page', () => {
    /** All URLs that our pages, style sheets and scripts load by name. */
    const referencesOf = (text: string): string[] =>
      [...text.matchAll(/(?:src|href)="([^"]+)"|url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)/g)].map(
        (match) => match[1] ?? match[2] ?? match[3]!,
      )

    it('loads nothing from other hosts', async () => {
      for (const start of ['/docs', '/docs/']) {
        const seen = new Set<string>()
        const open = [new URL(start, service.httpUrl)]
        for (let url = open.pop(); url !== undefined; url = open.pop()) {
          if (seen.has(url.href)) continue
          seen.add(url.href)
          const response = await fetch(url)
          assert.equal(response.status, 200, url.href)
          const type = response.headers.get('content-type')!
          const text = await response.text()
          if (!/html|css/.test(type)) continue
          for (const reference of referencesOf(text).filter((each) => !each.startsWith('data:'))) {
            const found = new URL(reference, url)
            assert.equal(found.origin, new URL(service.httpUrl).origin, `${url.href} loads ${reference}`)
            open.push(found)
          }
        }
        assert.ok(seen.size >= 6, [...seen].join(' '))
      }
    })

    it('forbids browsers to load from elsewhere, and works without https', async () => {
      const policy = (await fetch(`${service.httpUrl}/docs`)).headers.get('content-security-policy')!
      assert.match(policy, /default-src 'self'/)
      assert.doesNotMatch(policy, /https?:|upgrade-insecure-requests|unsafe-eval|\*/)
    })

    it('shows the description served next to it', async () => {
      const initializer = await (await fetch(`${service.httpUrl}/docs/static/swagger-initializer.js`)).text()
      assert.match(initializer, /resolveUrl\('\.\/json'\)/)
      const shown = await (await fetch(`${service.httpUrl}/docs/json`)).json()
      const served = await (await fetch(`${service.httpUrl}/docs/openapi.yaml`)).text()
      assert.deepEqual(shown, parse(served))
      assert.deepEqual(Object.keys(shown.paths).includes('/points/search/batch'), true)
    })
  })

  describe('figures', () => {
    // A separate service, because aborted requests of other tests may still be counted.
    let own: TestService
    before(async () => {
      own = await startTestService()
      await send('/points', '{"vector":[1,2],"payload":{"content_type":"Text","content":""}}')
    })
    after(() => own[Symbol.asyncDispose]())

    async function send(path: string, body: string): Promise<void> {
      const headers = { 'content-type': 'application/json' }
      await (await fetch(own.httpUrl + path, { method: 'POST', headers, body })).text()
    }

    it('count requests by operation and outcome, including unreadable ones', async () => {
      const names = ['ok', 'invalid_argument'].map(
        (outcome) => `vicinal_requests_total{operation="SearchPoints",transport="http",outcome="${outcome}"}`,
      )
      const seconds = 'vicinal_request_duration_seconds_count{operation="SearchPoints",transport="http"}'
      const bodies = [
        '{"vector":[1,2],"similarity":"Cosine","limit":5}',
        '{"vector":[1,2],"similarity":"Cosine","limit":0}',
        '{"vector":',
      ]
      for (const body of bodies) await send('/points/search', body)
      // An answer is counted after it is sent. A request on another connection may arrive earlier.
      await until(async () => (await figureOf(own, seconds)) >= bodies.length)
      assert.deepEqual(await Promise.all([...names, seconds].map((name) => figureOf(own, name))), [1, 2, 3])
    })

    it('have a histogram of latencies, and gauges of the stored data', async () => {
      const response = await fetch(`${own.httpUrl}/metrics`)
      const body = await response.text()
      assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
      assert.match(body, /^# TYPE vicinal_request_duration_seconds histogram$/m)
      assert.match(body, /^vicinal_request_duration_seconds_bucket\{le="\+Inf",.*transport="http"\} \d+$/m)
      for (const gauge of ['vicinal_points', 'vicinal_queued_queries', 'process_resident_memory_bytes']) {
        assert.match(body, new RegExp(`^${gauge} \\d+`, 'm'))
      }
      assert.equal(figureIn(body, 'vicinal_dimension'), 2)
    })
  })
})

describe('an HTTP server with a key', () => {
  it('refuses before it reads a body, also on unknown paths, and leaves the docs open', async () => {
    await using service = await startTestService({ HTTP_API_KEY: 'http-key-for-tests' })
    const { port } = service.service.httpAddress!
    using connection = await RawHttp.open(port)
    const wrong = [
      [],
      ['authorization:'],
      ['authorization: http-key'],
      ['authorization: Bearer'],
      ['authorization: Basic http-key-for-tests'],
      ['authorization: http-key-for-tests, http-key-for-tests'],
    ]
    for (const headers of wrong) {
      for (const line of ['POST /points', 'GET /nothing', 'PUT /points', 'GET /metrics']) {
        connection.request(line, headers)
        const answer = await connection.answer()
        assertPlain(answer, 401, /API key/)
        assert.equal(answer.headers['www-authenticate'], 'Bearer')
      }
    }
    connection.request('GET /docs/static/swagger-ui.css')
    assert.equal((await connection.answer()).status, 200)
    connection.request('GET /nothing', ['authorization: bearer http-key-for-tests'])
    assert.equal((await connection.answer()).status, 404)
    connection.write(`POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: 1000\r\n\r\n`)
    assertPlain(await connection.answer(), 401, /API key/)
  })
})

describe('a disabled HTTP server', () => {
  it('leaves its port closed', async () => {
    const port = await freePort()
    await using _service = await startTestService({ DISABLE_HTTP: 'true', HTTP_PORT: String(port) })
    const [error] = await once(createConnection(port, '127.0.0.1'), 'error')
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNREFUSED')
  })
})

describe('an HTTP server whose points are not loaded yet', () => {
  it('is healthy, not ready, and says so in plain text', async () => {
    const server = await startFailingHttpServer(
      new DatabaseError('not_ready', 'the stored points are still loading'),
    )
    using connection = await RawHttp.open(server.port)
    connection.request('GET /health')
    assert.equal((await connection.answer()).body, 'OK')
    for (const [line, body] of [['GET /readyz'], [`GET /points/${unknownId}`], ['POST /points', pointBody]]) {
      connection.request(line!, [json], body)
      const answer = await connection.answer()
      assertPlain(answer, 503, 'the stored points are still loading')
      assert.equal(answer.headers['retry-after'], '1')
    }
    await server.close(0)
  })
})

describe('an HTTP server that closes', () => {
  it('answers requests that have begun, and ends without waiting for the connection', {
    timeout: 120_000,
  }, async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '600000' })
    using connection = await RawHttp.open(service.service.httpAddress!.port)
    connection.write(
      `GET /health HTTP/1.1\r\nhost: x\r\n\r\nPOST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: ${pointBody.length}\r\n\r\n`,
    )
    assert.equal((await connection.answer()).body, 'OK')
    const closing = service.service.close()
    connection.write(pointBody)
    const answer = await connection.answer()
    assert.equal(answer.status, 201)
    assert.equal(answer.headers.connection, 'close')
    await connection.closed()
    await closing
  })

  it('refuses a request that arrives while it closes', { timeout: 120_000 }, async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '600000' })
    using connection = await RawHttp.open(service.service.httpAddress!.port)
    connection.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /hea')
    assert.equal((await connection.answer()).body, 'OK')
    const closing = service.service.close()
    let answer: RawAnswer
    // A thread of its own learns of it a moment later.
    do {
      connection.write('lth HTTP/1.1\r\nhost: x\r\n\r\nGET /hea')
      answer = await connection.answer()
    } while (answer.status === 200)
    assertPlain(answer, 503, 'the server is shutting down')
    assert.equal(answer.headers.connection, 'close')
    await closing
  })

  it('cuts off requests that have not ended in time', async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '50' })
    using connection = await RawHttp.open(service.service.httpAddress!.port)
    connection.write(`POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: 10\r\n\r\n`)
    await service.service.close()
    await connection.closed()
  })
})
