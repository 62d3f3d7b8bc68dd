import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { apiKey, startTestService, type TestService } from '../../test/support/service.ts'
import { type Language, languages, type QueryToShow, snippet } from '../src/lib/snippets.ts'
import { httpKey } from './browser.ts'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** What the Python client imports. `PYTHON` may name the interpreter of a virtual environment that has it. */
const pythonPackages = 'httpcore, httptools, httpx, numpy, orjson'
const python = process.env.PYTHON ?? 'python3'

/** By language, why its snippets cannot run here; undefined if they can. */
const missing: Readonly<Partial<Record<Language, string>>> = {
  ...((await can('curl', ['--version'])) ? {} : { curl: 'curl is not installed' }),
  ...((await can(python, ['-c', `import ${pythonPackages}`]))
    ? {}
    : { python: `${python} lacks one of the packages ${pythonPackages}` }),
}

async function can(program: string, parameters: readonly string[]): Promise<boolean> {
  return await run(program, parameters).then(
    () => true,
    () => false,
  )
}

describe('a query as code, as the console shows it', () => {
  let service: TestService
  let ids: readonly string[]
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-snippets-'))

  before(async () => {
    await installClient(directory)
    service = await startTestService({ HTTP_API_KEY: httpKey })
    await request('PUT', 'collections/shop', {})
    const vectors = Array.from({ length: 40 }, (_, index) => ({
      vector: [index, 1, -index / 3],
      payload: {
        content_type: 'Text',
        content: `it's "number" ${index}`,
        attributes: {
          kind: index % 2 === 0 ? "even's" : 'odd',
          index,
          big: index > 9,
          since: { $date: '2026-01-01T00:00:00.000001Z' },
          place: { $geo: { lat: index, lon: 8.5 } },
          'two words': 'a "quoted" text',
        },
      },
    }))
    const answer = await request('POST', 'collections/shop/points/batch', { vectors })
    ids = answer.point_ids as readonly string[]
  })

  after(async () => {
    await service[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
  })

  const queries = (): readonly (readonly [string, Partial<QueryToShow>])[] => [
    ['near a vector', { near: { vector: [1.5, 1e-7, -3] } }],
    ['near a point, with ef and another metric', { near: { id: ids[3]! }, metric: 'Manhattan', ef: 64 }],
    [
      'with a filter that has to be quoted',
      {
        near: { vector: [1, 2, 3] },
        filter: {
          kind: "even's",
          big: true,
          index: { $gte: 2, $in: [10, 12, 14, 16] },
          since: { $gt: { $date: '2026-01-01T00:00:00Z' }, $lte: { $date: '2026-01-01T00:00:00.000001Z' } },
          place: { $near: { lat: 12, lon: 8.5, radius_m: 1_000_000 } },
          'two words': 'a "quoted" text',
          $not: { $or: [{ absent: { $exists: true } }, { kind: null }] },
        },
      },
    ],
    [
      'whose answer is shaped',
      {
        near: undefined,
        shape: {
          like: [ids[3]!],
          unlike: [ids[30]!],
          boost: [
            { weight: 0.5, filter: { kind: "even's" } },
            { weight: -0.2, recent: { path: 'since', half_life: '14d' } },
          ],
          diversity: 0.1,
          group_by: { path: 'kind', size: 3 },
        },
      },
    ],
  ]

  for (const [language, name] of languages) {
    it(`finds the same points when run: ${name}`, { skip: missing[language] }, async () => {
      for (const [what, part] of queries()) {
        const query = queryOf(part)
        const expected = await answerTo(query)
        assert.ok(expected.length > 0, what)
        assert.deepEqual(await programs[language](snippet(language, query, true)), expected, what)
      }
    })
  }

  const environment = (key: string): NodeJS.ProcessEnv => ({ ...process.env, KEY: key })

  /** How to run the snippets of each language. Each returns the ids of the points found. */
  const programs: Readonly<Record<Language, (text: string) => Promise<readonly string[]>>> = {
    curl: async (text) => {
      const { stdout } = await run('bash', ['-c', text], { env: environment(httpKey) })
      return (JSON.parse(stdout) as { readonly results: readonly string[] }).results
    },
    typescript: async (text) => {
      const path = join(directory, 'query.ts')
      writeFileSync(path, text)
      await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory])
      const { stdout } = await run(process.execPath, [path], { env: environment(httpKey) })
      return idsIn(stdout)
    },
    python: async (text) => {
      const path = join(directory, 'query.py')
      writeFileSync(path, text)
      const env = { ...environment(httpKey), PYTHONPATH: join(root, 'clients/python/src') }
      return idsIn((await run(python, [path], { env })).stdout)
    },
    grpc: async (text) => {
      // The tests have buf but not grpcurl, so this translates the call to `buf curl`.
      const shim = `grpcurl() {
        while [ "$1" = -plaintext ] || [ "$1" = -H ] || [ "$1" = -d ]; do
          if [ "$1" = -plaintext ]; then shift; else parameters+=("$1" "$2"); shift 2; fi
        done
        ${join(root, 'node_modules/.bin/buf')} curl --schema ${join(root, 'proto')} --protocol grpc --http2-prior-knowledge "\${parameters[@]}" "http://$1/$2"
      }`
      const { stdout } = await run('bash', ['-c', `${shim}\n${text}`], { env: environment(apiKey) })
      const { resultPointIds } = JSON.parse(stdout) as {
        readonly resultPointIds: readonly { readonly id: { readonly value: string } }[]
      }
      return resultPointIds.map(({ id }) => id.value)
    },
  }

  function queryOf(part: Partial<QueryToShow>): QueryToShow {
    return {
      url: service.httpUrl,
      grpcPort: Number(service.grpcAddress.split(':').at(-1)),
      collection: 'shop',
      needsKey: true,
      near: { vector: [1, 2, 3] },
      words: '',
      balance: 0.5,
      metric: 'Euclidean',
      limit: 5,
      ef: undefined,
      filter: {},
      shape: {},
      ...part,
    }
  }

  async function answerTo({ near, metric, limit, filter, shape }: QueryToShow): Promise<readonly string[]> {
    const body = { ...near, similarity: metric, limit, filter, ...shape }
    return (await request('POST', 'collections/shop/points/search', body)).results as readonly string[]
  }

  async function request(
    method: string,
    path: string,
    body: unknown,
  ): Promise<Readonly<Record<string, unknown>>> {
    const response = await fetch(`${service.httpUrl}/${path}`, {
      method,
      headers: { 'content-type': 'application/json', authorization: httpKey },
      body: JSON.stringify(body),
    })
    assert.ok(response.ok, `${path}: ${response.status}`)
    return (await response.json()) as Readonly<Record<string, unknown>>
  }
})

/** Builds the client package as a program that depends on it would find it, and lets the compiler check such programs. */
async function installClient(directory: string): Promise<void> {
  const packagePath = join(directory, 'node_modules/vicinal-client')
  mkdirSync(packagePath, { recursive: true })
  cpSync(join(root, 'clients/typescript/package.json'), join(packagePath, 'package.json'))
  await run(process.execPath, [join(root, 'clients/typescript/build.ts'), join(packagePath, 'dist')])
  writeFileSync(join(directory, 'package.json'), '{"type": "module"}')
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: 'es2024',
    module: 'nodenext',
    lib: ['es2024', 'dom'],
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  }
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['query.ts'] }))
}

function idsIn(printed: string): readonly string[] {
  return printed
    .trim()
    .split('\n')
    .map((line) => line.split(' ')[0]!)
}
