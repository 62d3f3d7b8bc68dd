import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Ajv2020, type AnySchema, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { parse } from 'yaml'
import { type OperationName, operations as offered } from '../src/api/operations.ts'
import type { ClusterStatus } from '../src/base/cluster-status.ts'
import { DatabaseError } from '../src/base/errors.ts'
import { pathsOf, routes } from '../src/server/http/routes.ts'
import { startFailingHttpServer } from './support/failing-http-server.ts'
import { temporaryDirectory } from './support/process.ts'
import { fileOfKeys, secretOf } from './support/restricted-keys.ts'
import { startTestCluster, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** The served OpenAPI description matches the server: its structure, its routes and its answers. */

const source = readFileSync(join(import.meta.dirname, '../src/server/http/openapi.yaml'), 'utf8')
const description = parse(source) as Description

interface Description {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string }
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, PathItem>>
  readonly components: {
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly schemas: Readonly<Record<string, unknown>>
    readonly responses: Readonly<Record<string, Response>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
  }
}

interface PathItem {
  readonly parameters?: readonly (Parameter | Reference)[]
  readonly get?: Operation
  readonly put?: Operation
  readonly post?: Operation
  readonly patch?: Operation
  readonly delete?: Operation
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: unknown
}

interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly parameters?: readonly (Parameter | Reference)[]
  readonly security?: readonly Readonly<Record<string, unknown>>[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Response | Reference>>
}

interface Reference {
  readonly $ref: string
}

interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly schema: unknown } | Reference>>
  readonly content?: Content
}

type Content = Readonly<Record<string, { readonly schema: unknown }>>

/** Every operation with its path and method. */
const operations = Object.entries(description.paths).flatMap(([path, { parameters: _, ...item }]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
)

const ajv = new Ajv2020({ strict: false, allErrors: true })
formats.default(ajv)
ajv.addSchema(description as unknown as AnySchema, 'openapi')

/** A validator for the schema at a JSON pointer into the description. */
function validatorAt(pointer: string): ValidateFunction {
  return ajv.compile({ $ref: `openapi#${pointer}` })
}

function escaped(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))
}

function resolve(reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (value, key) =>
        (value as Record<string, unknown>)?.[
          decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~')
        ],
      description,
    )
}

function parameterOf(declared: Parameter | Reference): Parameter {
  return '$ref' in declared ? (resolve(declared.$ref) as Parameter) : declared
}

/** The path with its parameters replaced by the values, or by 'x' if none is given. */
function filled(path: string, values: Readonly<Record<string, string>> = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? 'x')
}

function responseOf(operation: Operation, status: string): Response {
  const response = operation.responses[status]!
  return '$ref' in response ? (resolve(response.$ref) as Response) : response
}

/** Every object in the description that has the key, with its location. */
function* objectsWith(
  key: string,
  value: unknown = description,
  path = '#',
): Generator<{ path: string; object: Readonly<Record<string, unknown>> }> {
  if (typeof value !== 'object' || value === null) return
  if (key in value) yield { path, object: value as Readonly<Record<string, unknown>> }
  for (const [name, child] of Object.entries(value)) yield* objectsWith(key, child, `${path}/${name}`)
}

describe('the OpenAPI description', () => {
  it('is OpenAPI 3.1 with all parts that readers need', () => {
    assert.match(description.openapi, /^3\.1\.\d+$/)
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
    assert.equal(description.info.version, version)
    const tags = description.tags.map(({ name }) => name)
    const ids = operations.map(({ operation }) => operation.operationId)
    assert.equal(new Set(ids).size, ids.length, 'operation ids are unique')
    for (const { path, method, operation } of operations) {
      assert.match(method, /^(get|put|post|delete|options|head|patch|trace)$/, path)
      const where = `${method} ${path}`
      assert.ok(operation.operationId && operation.summary, where)
      assert.ok(operation.tags.length > 0 && operation.tags.every((tag) => tags.includes(tag)), where)
      assert.ok(
        Object.keys(operation.responses).some((status) => status.startsWith('2')),
        where,
      )
      for (const status of Object.keys(operation.responses)) {
        assert.match(status, /^[1-5]\d\d$/, where)
        assert.ok(responseOf(operation, status).description, `${where} ${status}`)
      }
      for (const requirement of operation.security ?? []) {
        for (const scheme of Object.keys(requirement)) {
          assert.ok(scheme in description.components.securitySchemes, where)
        }
      }
    }
  })

  it('declares exactly the parameters of each path', () => {
    for (const { path, operation } of operations) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const ofPath = (description.paths[path]!.parameters ?? []).map(parameterOf)
      const declared = ofPath.filter((parameter) => parameter.in === 'path')
      const shared = ofPath.filter((parameter) => parameter.in !== 'path').map(({ name }) => name)
      assert.ok(
        shared.length === 0 || shared.join() === 'Vicinal-Consistency,Vicinal-Position,Vicinal-Strict',
        path,
      )
      assert.deepEqual(declared.map(({ name }) => name).sort(), inPath.sort(), path)
      assert.ok(
        declared.every((parameter) => parameter.required === true),
        path,
      )
      // Other tests check which operations accept which headers and query parameters.
      const others = (operation.parameters ?? []).map(parameterOf)
      assert.ok(
        others.every(
          (parameter) =>
            parameter.in === 'query' || (parameter.in === 'header' && parameter.required !== true),
        ),
        path,
      )
    }
  })

  it('has no dangling references and no unused parts', () => {
    const references = [...objectsWith('$ref')]
    assert.ok(references.length > 10)
    for (const { path, object } of references) {
      assert.match(String(object.$ref), /^#\//, path)
      assert.notEqual(resolve(String(object.$ref)), undefined, `${path} refers to ${object.$ref}`)
    }
    const used = new Set(references.map(({ object }) => object.$ref))
    for (const kind of ['parameters', 'schemas', 'responses'] as const) {
      for (const name of Object.keys(description.components[kind])) {
        assert.ok(used.has(`#/components/${kind}/${name}`), `${name} is not used`)
      }
    }
  })

  it('has valid JSON Schema 2020-12 schemas that accept their examples', () => {
    for (const { path, object } of objectsWith('schema')) {
      assert.equal(ajv.validateSchema(object.schema as AnySchema), true, `${path}: ${ajv.errorsText()}`)
    }
    for (const [name, schema] of Object.entries(description.components.schemas)) {
      assert.equal(ajv.validateSchema(schema as AnySchema), true, `${name}: ${ajv.errorsText()}`)
      const validate = validatorAt(`/components/schemas/${name}`)
      for (const example of (schema as { examples?: unknown[] }).examples ?? []) {
        assert.ok(validate(example), `${name}: ${ajv.errorsText(validate.errors)}`)
      }
    }
  })

  it('declares exactly the operations that need no key', () => {
    const open = operations.filter(({ operation }) => operation.security?.length === 0)
    assert.deepEqual(open.map(({ path }) => path).sort(), [
      '/',
      '/docs',
      '/docs/openapi.yaml',
      '/health',
      '/readyz',
    ])
    for (const { path, operation } of operations) {
      assert.equal('401' in operation.responses, operation.security === undefined, path)
    }
  })
})

describe('the OpenAPI description and the server', () => {
  const served: { readonly method: string; readonly path: string }[] = []
  let service: TestService
  let keyed: TestService
  let keys: Awaited<ReturnType<typeof temporaryDirectory>>
  let cluster: AsyncDisposable & { readonly services: readonly TestService[] }

  before(async () => {
    const collect = (message: unknown): void => {
      const { fastify } = message as { fastify: { addHook(name: string, hook: unknown): void } }
      fastify.addHook('onRoute', ({ method, url }: { method: string | string[]; url: string }) => {
        for (const each of [method].flat()) served.push({ method: each.toLowerCase(), path: url })
      })
    }
    channel('fastify.initialization').subscribe(collect)
    service = await startTestService({ DIMENSION: '2', MAX_REQUEST_BYTES: '2000' })
    cluster = await startTestCluster(['a', 'b'])
    channel('fastify.initialization').unsubscribe(collect)
    keys = await temporaryDirectory()
    keyed = await startTestService({
      HTTP_API_KEY: 'http-key-for-tests',
      AUDIT: 'all',
      API_KEYS_FILE: await fileOfKeys(keys.path),
    })
  })
  after(async () => {
    for (const each of [service, keyed, cluster, keys]) await each[Symbol.asyncDispose]()
  })

  it('have the same routes', () => {
    const listed = operations.map(({ method, path }) => `${method} ${path}`)
    const real = served
      .map(({ method, path }) => ({ method, path: path.replaceAll(/:(\w+)/g, '{$1}') }))
      .filter(({ method, path }) => !isPart(method, path))
      // The pages of the console are not part of the API.
      .filter(({ path }) => !/^\/console(\/|$)/.test(path))
      .map(({ method, path }) => `${method} ${path}`)
    assert.deepEqual([...new Set(real)].sort(), listed.sort())
  })

  it('agree that a quota can refuse every operation', async () => {
    const table = (Object.keys(routes) as OperationName[]).flatMap((name) =>
      pathsOf(name).map((path) => ({
        isServed: offered[name].concerns !== 'cluster',
        method: routes[name].method.toLowerCase(),
        path: path.replaceAll(/:(\w+)/g, '{$1}'),
      })),
    )
    const headers = { 'content-type': 'application/json', authorization: secretOf('admin') }
    const bounded = { name: 'bounded', role: 'admin', quotas: { requests_per_second: 1 } }
    const made = await fetch(`${keyed.httpUrl}/keys`, {
      method: 'POST',
      headers,
      body: JSON.stringify(bounded),
    })
    const { key } = (await made.json()) as { key: string }
    for (const { method, path, isServed } of table) {
      const { operation } = operations.find((each) => each.path === path && each.method === method)!
      const where = `${method} ${path}`
      assert.ok('429' in operation.responses, where)
      if (!isServed) continue
      const hasBody = operation.requestBody !== undefined
      const ask = (): Promise<globalThis.Response> =>
        fetch(keyed.httpUrl + filled(path), {
          method: method.toUpperCase(),
          headers: hasBody ? { ...headers, authorization: key } : { authorization: key },
          ...(hasBody ? { body: '{}' } : {}),
        })
      // One a second is let in.
      let answer = await ask()
      for (let call = 0; call < 50 && answer.status !== 429; call += 1) answer = await ask()
      assert.equal(answer.status, 429, where)
      assert.match(await answer.text(), /^requests_per_second of the key bounded would be 2/)
    }
  })

  /** Routes that are not separate operations: HEAD next to GET, files of the docs page, refusals. */
  function isPart(method: string, path: string): boolean {
    const refused = method !== 'post' && /\/points\/[a-z]+$/.test(path)
    return method === 'head' || refused || (path.startsWith('/docs/') && path !== '/docs/openapi.yaml')
  }

  /** Sends a request and checks the answer against the description. */
  async function check(
    baseUrl: string,
    method: string,
    path: string,
    status: number,
    request: {
      readonly path?: string
      readonly body?: unknown
      readonly type?: string
      readonly key?: string
      readonly idempotencyKey?: string
    } = {},
  ): Promise<string> {
    const { operation } = operations.find((each) => each.path === path && each.method === method)!
    const response = await fetch(baseUrl + (request.path ?? path), {
      method: method.toUpperCase(),
      headers: {
        ...(request.body === undefined ? {} : { 'content-type': request.type ?? 'application/json' }),
        ...(request.key === undefined ? {} : { authorization: request.key }),
        ...(request.idempotencyKey === undefined ? {} : { 'idempotency-key': request.idempotencyKey }),
      },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    })
    const text = await response.text()
    assert.equal(response.status, status, text)
    const { content, headers } = responseOf(operation, String(status))
    for (const [name, header] of Object.entries(headers ?? {})) {
      // The header that several answers share is optional.
      if (!('$ref' in header)) assert.ok(response.headers.has(name), `${name} of ${status}`)
    }
    if (content === undefined) {
      assert.equal(text, '')
      return text
    }
    const type = response.headers.get('content-type')!
    // JSON has no media type parameters, so the description names the bare type.
    const described = Object.keys(content).find((each) => each === type || `${each}; charset=utf-8` === type)
    assert.ok(described, `${method} ${path} ${status} is ${type}, described is ${Object.keys(content)}`)
    const declared = operation.responses[String(status)]!
    const pointer =
      '$ref' in declared ? declared.$ref.slice(1) : `/paths/${escaped(path)}/${method}/responses/${status}`
    const validate = validatorAt(`${pointer}/content/${escaped(described)}/schema`)
    const value = described === 'application/json' ? JSON.parse(text) : text
    assert.ok(validate(value), `${method} ${path} ${status}: ${ajv.errorsText(validate.errors)}: ${text}`)
    return text
  }

  const point = { vector: [0.5, -1.5], payload: { content_type: 'Text', content: 'x' } }
  const query = { vector: [0.5, -1.5], similarity: 'Manhattan', limit: 3 }
  const judged = {
    judgements: [{ vector: [0.5, -1.5], relevant: { '22222222-3333-4444-8555-666666666666': 1 } }],
    similarity: 'Cosine',
  }
  const missingId = '11111111-2222-4333-8444-555555555555'
  const chosenId = '22222222-3333-4444-8555-666666666666'
  const bodies: Readonly<Record<string, unknown>> = {
    '/points': point,
    '/points/batch': { vectors: [point, point] },
    '/points/search': query,
    '/points/search/batch': { queries: [query, { ...query, ef: 10 }] },
    '/points/list': {},
    '/points/count': {},
    '/points/facets': { paths: ['n'] },
    '/points/evaluate': judged,
    '/points/update': { filter: { n: 1 }, set: { m: 1 } },
    '/points/delete': { filter: { n: 1 } },
  }
  /** A body that no operation on points accepts. */
  const wrongBody = { vector: 1, vectors: 1, queries: 1, filter: 1, paths: 1 }
  const rich = {
    ...point,
    payload: {
      ...point.payload,
      attributes: { n: 1, at: { $date: '2026-11-22T10:00:00Z' } },
      ttl_seconds: 3600,
    },
  }
  const include = { distance: true, payload: true, vector: true, version: true }
  const detailed = { ...query, filter: { n: 1 }, include, exact: true, max_distance: 1e9, profile: true }
  /** Bodies of the extended interface, in an order in which all succeed. */
  const extended: readonly (readonly [path: string, body: object])[] = [
    ['/points', rich],
    ['/points/batch', { vectors: [rich, { vector: [1] }], on_error: 'continue' }],
    ['/points/search', detailed],
    ['/points/search/batch', { queries: [detailed, query, { ...query, include: {} }] }],
    ['/points/list', {}],
    ['/points/list', { filter: { n: 1 }, limit: 1, include: { ...include, distance: false } }],
    ['/points/count', { filter: { n: { $gte: 1 } } }],
    ['/points/facets', { paths: ['n', 'at'], limit: 5 }],
    ['/points/evaluate', { ...judged, k: 5, sweep: ['ef'], ef: 10 }],
    ['/points/update', { filter: { n: 1 }, set: { m: true }, limit: 1 }],
    ['/points/delete', { filter: { n: 1 }, dry_run: true }],
  ]
  /** The prefixes of point paths: for the default collection and for a named one. */
  const below = '/collections/{collection}'
  const bases = ['', below]
  const collection = 'glosses'

  it('agree on every success', async () => {
    const { httpUrl } = service
    const put = '/collections/{name}'
    const path = filled(put, { name: collection })
    await check(httpUrl, 'put', put, 201, { path, body: { dimension: 2, hnsw: { m: 8 } } })
    await check(httpUrl, 'put', put, 200, { path })
    for (const base of bases) {
      const inserted = await check(httpUrl, 'post', `${base}/points`, 201, {
        path: filled(`${base}/points`, { collection }),
        body: point,
      })
      const { point_id: id } = JSON.parse(inserted)
      const ofPoint = { path: filled(`${base}/points/{id}`, { collection, id }) }
      await check(httpUrl, 'get', `${base}/points/{id}`, 200, ofPoint)
      for (const [each, status] of [
        ['/points/batch', 201],
        ['/points/search', 200],
        ['/points/search/batch', 200],
      ] as const) {
        const request = { path: filled(base + each, { collection }), body: bodies[each] }
        await check(httpUrl, 'post', base + each, status, request)
      }
      await check(httpUrl, 'post', `${base}/snapshots`, 200, {
        path: filled(`${base}/snapshots`, { collection }),
      })
      await check(httpUrl, 'delete', `${base}/points/{id}`, 204, ofPoint)
    }
    await check(httpUrl, 'put', '/aliases', 200, { body: { set: { words: collection }, remove: ['none'] } })
    await check(httpUrl, 'get', '/collections', 200)
    await check(httpUrl, 'get', put, 200, { path: '/collections/words' })
    await check(httpUrl, 'delete', put, 204, { path })
    for (const { path, method } of operations.filter(({ operation }) => operation.tags.includes('service'))) {
      if (!path.includes('{')) await check(httpUrl, method, path, 200)
    }
    const yaml = await check(service.httpUrl, 'get', '/docs/openapi.yaml', 200)
    assert.equal(yaml, source)
  })

  it('agree on the answers of the extended interface', async () => {
    const { httpUrl } = service
    const put = '/collections/{name}'
    await check(httpUrl, 'put', put, 201, { path: filled(put, { name: 'extended' }), body: { dimension: 2 } })
    for (const base of bases) {
      const at = (path: string): string => filled(base + path, { collection: 'extended', id: chosenId })
      for (const [path, body] of extended) {
        const validate = bodyValidator('post', base + path)
        // An item that cannot be stored does not match the schema.
        if (!('on_error' in body)) assert.ok(validate(body), `${path}: ${ajv.errorsText(validate.errors)}`)
        const status = path === '/points' || path === '/points/batch' ? 201 : 200
        await check(httpUrl, 'post', base + path, status, { path: at(path), body })
      }
      const path = `${base}/points/{id}`
      const ofPoint = { path: at('/points/{id}') }
      await check(httpUrl, 'patch', path, 404, { ...ofPoint, body: { content: 'y' } })
      await check(httpUrl, 'put', path, 201, { ...ofPoint, body: rich })
      await check(httpUrl, 'put', path, 200, { ...ofPoint, body: rich })
      await check(httpUrl, 'put', path, 412, { ...ofPoint, body: { ...rich, when: { absent: true } } })
      await check(httpUrl, 'patch', path, 200, { ...ofPoint, body: { set: { n: 2 }, expires_at: null } })
      await check(httpUrl, 'patch', path, 412, { ...ofPoint, body: { content: 'y', when: { version: 0 } } })
      const withVersion = await check(httpUrl, 'get', path, 200, { path: `${ofPoint.path}?version=true` })
      assert.ok('version' in JSON.parse(withVersion))
      const conflict = { path: at('/points'), body: { ...point, id: chosenId } }
      await check(httpUrl, 'post', `${base}/points`, 409, conflict)
    }
  })

  it('agree on what admins do', async () => {
    const key = 'http-key-for-tests'
    await check(service.httpUrl, 'get', '/audit', 412)
    await check(keyed.httpUrl, 'get', '/audit', 401)
    for (const query of ['', '?limit=1&since=2026-01-01T00:00:00Z&allowed=false']) {
      await check(keyed.httpUrl, 'get', '/audit', 200, { path: `/audit${query}`, key })
    }
    await check(keyed.httpUrl, 'get', '/audit', 400, { path: '/audit?limit=0', key })
    const body = {
      name: 'acme',
      role: 'write',
      collections: ['docs-*'],
      filter: { tenant: { $in: ['acme', 'x'] } },
      expires_at: '2040-01-01T00:00:00Z',
      quotas: { points: 10, searches_in_flight: 2 },
    }
    const validate = bodyValidator('post', '/keys')
    assert.ok(validate(body), ajv.errorsText(validate.errors))
    await check(keyed.httpUrl, 'post', '/keys', 201, { body, key })
    await check(keyed.httpUrl, 'post', '/keys', 409, { body, key })
    await check(keyed.httpUrl, 'post', '/keys', 400, { body: {}, key })
    await check(service.httpUrl, 'post', '/keys', 412, { body })
    await check(keyed.httpUrl, 'get', '/keys', 200, { key })
    const path = '/keys/acme'
    await check(keyed.httpUrl, 'delete', '/keys/{name}', 403, { path, key: secretOf('write') })
    await check(keyed.httpUrl, 'delete', '/keys/{name}', 204, { path, key })
    await check(keyed.httpUrl, 'delete', '/keys/{name}', 404, { path, key })
  })

  it('agree on the cluster API', async () => {
    const [first, second] = cluster.services as [TestService, TestService]
    const node = '/cluster/nodes/{name}'
    await check(first.httpUrl, 'get', '/cluster', 200)
    await check(first.httpUrl, 'delete', node, 412, { path: filled(node, { name: 'b' }) })
    const refetch = `${node}/refetch`
    await check(first.httpUrl, 'post', `${node}/drain`, 204, { path: filled(`${node}/drain`, { name: 'b' }) })
    await check(first.httpUrl, 'post', refetch, 412, { path: filled(refetch, { name: 'b' }) })
    const replicas = '/cluster/replicas'
    await check(first.httpUrl, 'put', replicas, 204, { path: `${replicas}?count=2` })
    await check(first.httpUrl, 'put', replicas, 400, { path: `${replicas}?count=0` })
    await check(first.httpUrl, 'delete', node, 404, { path: filled(node, { name: 'c' }) })
    await second.service.close()
    await until(
      async () => !(await statusOf(first)).nodes.some(({ name, is_alive }) => name === 'b' && is_alive),
    )
    await check(first.httpUrl, 'get', '/cluster', 200)
    await check(first.httpUrl, 'post', refetch, 412, { path: filled(refetch, { name: 'b' }) })
    await check(first.httpUrl, 'delete', node, 204, { path: filled(node, { name: 'b' }) })

    const stored = await ask(first, '/points', { body: point })
    const position = stored.headers.get('vicinal-position')
    assert.match(position!, /^[1-9]\d*$/)
    for (const level of consistencySchema().enum) {
      const headers = { 'vicinal-consistency': level, 'vicinal-position': position! }
      assert.equal((await ask(first, '/points/count', { headers })).status, 200, level)
    }
    const headers = { 'vicinal-consistency': 'eventual' }
    assert.equal((await ask(first, '/points/count', { headers })).status, 400)
  })

  function consistencySchema(): { readonly enum: readonly string[] } {
    return description.components.parameters.Consistency!.schema as { readonly enum: readonly string[] }
  }

  async function statusOf({ httpUrl }: TestService): Promise<ClusterStatus> {
    return (await (await fetch(`${httpUrl}/cluster`)).json()) as ClusterStatus
  }

  function ask(
    { httpUrl }: TestService,
    path: string,
    request: { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> },
  ): Promise<globalThis.Response> {
    const headers = { 'content-type': 'application/json', ...request.headers }
    return fetch(httpUrl + path, { method: 'POST', headers, body: JSON.stringify(request.body ?? {}) })
  }

  function bodyValidator(method: string, path: string): ValidateFunction {
    return validatorAt(`/paths/${escaped(path)}/${method}/requestBody/content/application~1json/schema`)
  }

  it('agree on the accepted bodies', () => {
    const posted = Object.entries(bodies).flatMap(([path, body]) =>
      bases.map((base) => [base + path, body] as const),
    )
    for (const [path, body] of posted) {
      const validate = bodyValidator('post', path)
      assert.ok(validate(body), ajv.errorsText(validate.errors))
      for (const wrong of [[], null, wrongBody, { ...(body as object), ...wrongBody }]) {
        assert.equal(validate(wrong), false, `${path} ${JSON.stringify(wrong)}`)
      }
    }
  })

  it('agree on the accepted settings and aliases', async () => {
    const put = '/collections/{name}'
    const settings = bodyValidator('put', put)
    for (const body of [{}, { dimension: 65_535 }, { hnsw: { m: 4, ef_construction: 2000 } }]) {
      assert.ok(settings(body), ajv.errorsText(settings.errors))
      await check(service.httpUrl, 'put', put, 201, { path: '/collections/taken', body })
      await check(service.httpUrl, 'delete', put, 204, { path: '/collections/taken' })
    }
    const wrong = [{ dimension: 0 }, { dimension: 65_536 }, { dimension: 1.5 }, { hnsw: { m: 3 } }, []]
    for (const body of [...wrong, { hnsw: { ef_construction: 2001 } }, { dimension: '2' }, { hnsw: 4 }]) {
      assert.equal(settings(body), false, JSON.stringify(body))
      await check(service.httpUrl, 'put', put, 400, { path: '/collections/refused', body })
    }
    const aliases = bodyValidator('put', '/aliases')
    for (const body of [{}, { set: { a: 'default' } }, { remove: ['a'] }]) {
      assert.ok(aliases(body), ajv.errorsText(aliases.errors))
      await check(service.httpUrl, 'put', '/aliases', 200, { body })
    }
    for (const body of [{ set: { A: 'default' } }, { set: [] }, { set: { a: 1 } }, { remove: ['-'] }, []]) {
      assert.equal(aliases(body), false, JSON.stringify(body))
      await check(service.httpUrl, 'put', '/aliases', 400, { body })
    }
  })

  it('agree on every refusal about collections', async () => {
    const { httpUrl } = service
    const put = '/collections/{name}'
    const path = '/collections/small'
    await check(httpUrl, 'put', put, 201, { path, body: { dimension: 2 } })
    await check(httpUrl, 'put', put, 409, { path, body: { dimension: 3 } })
    await check(httpUrl, 'put', '/aliases', 409, { body: { set: { small: 'default' } } })
    await check(httpUrl, 'put', '/aliases', 404, { body: { set: { a: 'missing' } } })
    for (const [url, request] of [
      [put, { path }],
      ['/aliases', {}],
    ] as const) {
      await check(httpUrl, 'put', url, 413, { ...request, body: 'x'.repeat(3000) })
      await check(httpUrl, 'put', url, 415, { ...request, body: {}, type: 'text/plain' })
    }
    await check(httpUrl, 'delete', put, 400, { path: '/collections/default' })
    for (const method of ['get', 'delete']) {
      await check(httpUrl, method, put, 400, { path: '/collections/No' })
      await check(httpUrl, method, put, 404, { path: '/collections/missing' })
    }
    for (const { path, method, operation } of operations.filter((each) => each.path.startsWith(below))) {
      const { requestBody } = operation
      const request = requestBody === undefined ? {} : { body: bodies[path.slice(below.length)] }
      const inside = (collection: string): string => filled(path, { collection, id: missingId })
      await check(httpUrl, method, path, 400, { ...request, path: inside('No') })
      await check(httpUrl, method, path, 404, { ...request, path: inside('missing') })
      if (requestBody === undefined) continue
      await check(httpUrl, method, path, 400, { body: wrongBody, path: inside('small') })
    }
    const inSmall = { path: `${path}/points/${missingId}` }
    assert.equal(await check(httpUrl, 'get', `${below}/points/{id}`, 404, inSmall), 'Point not found')
  })

  it('agree on every refusal', async () => {
    for (const path of Object.keys(bodies)) {
      await check(service.httpUrl, 'post', path, 400, { body: wrongBody })
      await check(service.httpUrl, 'post', path, 413, { body: 'x'.repeat(3000) })
      await check(service.httpUrl, 'post', path, 415, { body: {}, type: 'text/plain' })
    }
    const idempotencyKey = 'k'
    await check(service.httpUrl, 'post', '/points', 201, { body: point, idempotencyKey })
    for (const path of ['/points', '/points/batch']) {
      const body = path === '/points' ? { ...point, vector: [7, 8] } : bodies[path]
      await check(service.httpUrl, 'post', path, 422, { body, idempotencyKey })
      await check(service.httpUrl, 'post', path, 400, { body, idempotencyKey: 'k'.repeat(256) })
    }
    for (const method of ['get', 'delete']) {
      await check(service.httpUrl, method, '/points/{id}', 400, { path: '/points/x' })
    }
    await check(service.httpUrl, 'get', '/points/{id}', 404, { path: `/points/${missingId}` })
    for (const { path, method, operation } of operations.filter(
      (each) => '401' in each.operation.responses,
    )) {
      await check(keyed.httpUrl, method, path, 401, { path: filled(path), key: 'wrong' })
      // Only nodes have the paths of clusters, and a list has what the key may use.
      if (/^\/(cluster|collections$)/.test(path)) continue
      const body = operation.requestBody === undefined ? {} : { body: {} }
      await check(keyed.httpUrl, method, path, 403, {
        path: filled(path),
        key: secretOf('read one'),
        ...body,
      })
    }
  })

  it('agree on the errors of the server', async () => {
    const failures = {
      429: new DatabaseError('overloaded', 'too much is waiting'),
      500: new Error('a secret of ours'),
      503: new DatabaseError('not_ready', 'the stored points are still loading'),
      507: new DatabaseError('disk_full', 'the disk is full'),
    }
    for (const [status, error] of Object.entries(failures)) {
      const server = await startFailingHttpServer(error)
      const failing = operations.filter(
        ({ path, operation }) => path.startsWith('/points') && status in operation.responses,
      )
      assert.ok(failing.length > 0)
      for (const { path, method } of failing) {
        const body = bodies[path] ?? (['put', 'patch'].includes(method) ? point : undefined)
        const request = { path: filled(path, { id: missingId }), ...(body === undefined ? {} : { body }) }
        const text = await check(`http://127.0.0.1:${server.port}`, method, path, Number(status), request)
        assert.doesNotMatch(text, /secret/)
      }
      if (status === '503') await check(`http://127.0.0.1:${server.port}`, 'get', '/readyz', 503)
      await server.close(0)
    }
  })

  it('agree on which operations can fail with which status', () => {
    for (const { path, method, operation } of operations.filter((each) => each.path.includes('/points'))) {
      const isBelow = path.startsWith(below)
      const writes = method !== 'get' && !/\/(search|list|count|facets|evaluate)/.test(path)
      for (const status of ['400', '401', '500', '503'])
        assert.ok(status in operation.responses, `${path} ${status}`)
      assert.equal('507' in operation.responses, writes, `${method} ${path}`)
      assert.equal('413' in operation.responses, !['get', 'delete'].includes(method), `${method} ${path}`)
      const needsPoint = method === 'get' || method === 'patch'
      assert.equal('404' in operation.responses, needsPoint || isBelow, `${method} ${path}`)
    }
  })
})
