import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'

const root = join(import.meta.dirname, '..')

/** Each layer of src/ and the layers that it may import from, in addition to itself. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  base: [],
  kernels: ['base'],
  index: ['base', 'kernels'],
  attributes: ['base', 'kernels'],
  words: ['base', 'kernels'],
  storage: ['base'],
  points: ['base', 'kernels', 'index', 'attributes', 'storage'],
  graphs: ['base', 'kernels', 'index', 'storage', 'points'],
  search: ['base', 'kernels', 'index', 'attributes', 'storage', 'points', 'graphs'],
  write: ['base', 'attributes', 'storage', 'points'],
  collections: [
    ...['base', 'kernels', 'index', 'attributes', 'storage'],
    ...['points', 'graphs', 'search', 'write', 'words'],
  ],
  cluster: ['base', 'storage', 'points', 'search', 'write', 'collections', 'messages'],
  embeddings: ['base'],
  api: ['base', 'kernels', 'points', 'embeddings'],
  messages: ['base', 'api'],
  server: ['base', 'kernels', 'api', 'messages'],
  client: ['base', 'api', 'messages'],
  import: ['base'],
  settings: ['base'],
  'config.ts': ['base', 'settings'],
  'config.test.ts': ['base', 'settings', 'config.ts'],
  'transports.ts': ['base', 'config.ts', 'api', 'server'],
  serving: ['base', 'config.ts', 'api', 'collections', 'embeddings', 'transports.ts'],
  service: [
    'base',
    'config.ts',
    'index',
    'storage',
    'points',
    'write',
    'collections',
    'cluster',
    'embeddings',
    'messages',
  ],
  'main.ts': [
    ...['base', 'config.ts', 'storage', 'points', 'collections', 'cluster', 'embeddings'],
    ...['api', 'transports.ts', 'serving', 'service'],
  ],
  cli: ['base', 'settings', 'config.ts', 'client', 'import', 'service', 'main.ts'],
}

/**
 * Each layer of bench/ and the layers that it may import from, in addition to itself, src/, test/support/ and the
 * processes of a cluster.
 */
const benchMayImport: Readonly<Record<string, readonly string[]>> = {
  shared: [],
  'index/contenders': ['shared'],
  'index/options.ts': ['shared', 'index/contenders'],
  'index/run': ['shared', 'index/contenders', 'index/options.ts'],
  'index/curves': ['shared', 'index/contenders', 'index/options.ts', 'index/run'],
  'index/main.ts': ['shared', 'index/contenders', 'index/options.ts', 'index/run', 'index/curves'],
  'index/docs.ts': ['shared', 'index/run'],
  'index/docs.test.ts': ['shared', 'index/docs.ts'],
  'filter/data': ['shared'],
  'filter/ways.ts': [],
  'filter/options.ts': ['shared', 'filter/data', 'filter/ways.ts'],
  'filter/run': [
    ...['shared', 'index/contenders', 'index/run'],
    ...['filter/data', 'filter/ways.ts', 'filter/options.ts'],
  ],
  'filter/report': ['shared', 'filter/ways.ts', 'filter/run'],
  'filter/evaluate': ['shared', 'filter/options.ts'],
  'filter/start': ['shared', 'filter/evaluate', 'filter/options.ts'],
  'filter/main.ts': [
    ...['shared', 'index/contenders', 'filter/ways.ts', 'filter/options.ts'],
    ...['filter/run', 'filter/report', 'filter/evaluate', 'filter/start'],
  ],
  'cluster/requests.ts': [],
  'service/load': ['shared'],
  'service/targets': ['shared', 'service/load'],
  'service/options.ts': ['shared', 'service/load'],
  'service/run': ['shared', 'service/load', 'service/targets', 'service/options.ts'],
  'service/report': ['shared', 'service/load', 'service/run'],
  'service/main.ts': ['shared', 'service/load', 'service/options.ts', 'service/run', 'service/report'],
  'service/hand-over.ts': ['shared'],
  cluster: ['shared'],
  words: ['shared'],
}

/** Clients and messages import only types and errors from the api, no code that runs. */
const typesOnly: readonly (readonly [string, string])[] = [
  ['client', 'api'],
  ['messages', 'api'],
  ['api', 'points'],
  ['api', 'embeddings'],
]

const sources = globSync('src/**/*.ts', { cwd: root }).filter(
  (file) => !file.includes('/generated/') && !file.includes('/assembly/'),
)

const benchSources = globSync('bench/**/*.ts', { cwd: root, exclude: ['**/node_modules'] })

describe('imports', () => {
  it('go one way between the layers', () => {
    const faults = sources.flatMap((file) =>
      importsOf(file)
        .filter(({ target }) => !(file.endsWith('.test.ts') && target.startsWith('test/support/')))
        .map(({ target, typeOnly }) => ({ from: layerOf(file), to: layerOf(target), typeOnly }))
        .filter(({ from, to, typeOnly }) => !isAllowed(from, to, typeOnly))
        .map(({ from, to }) => `${file}: ${from} must not import from ${to}`),
    )
    assert.deepEqual(faults, [])
  })

  it('have no cycles', () => {
    assert.deepEqual(inCycles(sources), [])
  })

  it('are caught if they go the wrong way', () => {
    assert.equal(isAllowed('storage', 'index', false), false)
    assert.equal(isAllowed('search', 'write', true), false)
    assert.equal(isAllowed('client', 'api', false), false)
    assert.equal(isAllowed('client', 'api', true), true)
  })
})

describe('imports of the benchmarks', () => {
  it('go one way between the layers', () => {
    const faults = benchSources.flatMap((file) =>
      importsOf(file)
        .filter(({ target }) => !isAllowedInBench(file, target))
        .map(({ target }) => `${file} must not import from ${target}`),
    )
    assert.deepEqual(faults, [])
  })

  it('have no cycles', () => {
    assert.ok(benchSources.length > 0)
    assert.deepEqual(inCycles(benchSources), [])
  })

  it('are caught if they go the wrong way', () => {
    assert.equal(isAllowedInBench('bench/shared/table.ts', 'bench/index/run/compare.ts'), false)
    assert.equal(isAllowedInBench('bench/service/load/pacer.ts', 'bench/index/run/compare.ts'), false)
    assert.equal(isAllowedInBench('bench/shared/table.ts', 'test/tidy.test.ts'), false)
    assert.equal(isAllowedInBench('bench/index/main.ts', 'bench/shared/table.ts'), true)
  })
})

describe('the benchmarks', () => {
  it('construct the parts of the engine in one file', () => {
    const constructors = /\bnew (?:VectorIndex|Indexer|Searcher|SlotAllocator|SearchExecutor)\(/
    const files = benchSources.filter((file) => constructors.test(text(file)))
    assert.deepEqual(files, ['bench/shared/vicinal-index.ts'])
  })
})

describe('sources', () => {
  it('read the environment only where settings are read', () => {
    const readers = sources.filter(
      (file) => !file.endsWith('.test.ts') && /process\.env\b/.test(text(file)) && file !== 'src/cli/main.ts',
    )
    assert.deepEqual(readers, [])
  })

  it('have kebab-case names and no default exports', () => {
    const faults = [...sources, ...benchSources].filter(
      (file) => !/^[a-z0-9.-]+$/.test(file.split('/').at(-1)!) || /^export default /m.test(text(file)),
    )
    assert.deepEqual(faults, [])
  })

  it('start with the same Node options from a checkout and from the package', () => {
    const { scripts } = JSON.parse(text('package.json')) as { scripts: { start: string } }
    const [command = ''] = text('src/cli/main.ts').split('\n')
    const options = command.match(/--\S+/g)
    assert.ok(options !== null)
    assert.deepEqual(scripts.start.match(/--\S+/g), options)
  })

  it('are run by npm without a shell in between, which would not forward signals', () => {
    const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }
    for (const name of ['start', 'vicinal', 'demo']) assert.match(scripts[name]!, /^exec node /, name)
  })

  it('use only script syntax that cmd on Windows reads like sh', () => {
    const manifests = globSync(
      '{package.json,{console,bench,bench/*,integrations/*,clients/*}/package.json}',
      {
        cwd: root,
      },
    )
    assert.ok(manifests.length > 3)
    const foreign = manifests.flatMap((file) => {
      const { scripts = {} } = JSON.parse(text(file)) as { scripts?: Record<string, string> }
      // scripts/windows-exec.ts provides `exec` on Windows.
      return Object.entries(scripts)
        .filter(([, script]) => /\$|^'| '|;|\b(?:rm|cp|mv|mkdir)\b|(?:^|&& ?)(?:\w+=|\.)/.test(script))
        .map(([name, script]) => `${file}: ${name}: ${script}`)
    })
    assert.deepEqual(foreign, [])
  })

  it('have no TODO comments', () => {
    const faults = [...sources, ...benchSources].filter((file) =>
      /\b(TODO|FIXME|XXX|HACK)\b/.test(text(file)),
    )
    assert.deepEqual(faults, [])
  })
})

describe('the client for HTTP', () => {
  it('uses nothing of Node, with all that it imports: browsers run it', () => {
    const reached = new Set(['src/client/http.ts'])
    for (const file of reached) {
      for (const { target, typeOnly } of importsOf(file)) if (!typeOnly) reached.add(target)
    }
    assert.ok(reached.size > 10)
    const faults = [...reached].flatMap((file) => nodeUsesOf(text(file)).map((use) => `${file}: ${use}`))
    assert.deepEqual(faults, [])
  })

  it('uses no node:crypto over gRPC either', () => {
    const reached = new Set(['src/client/grpc-client.ts'])
    for (const file of reached) {
      for (const { target, typeOnly } of importsOf(file)) if (!typeOnly) reached.add(target)
    }
    const faults = [...reached].filter((file) => /from 'node:crypto'/.test(text(file)))
    assert.deepEqual(faults, [])
  })

  it('is caught if it does', () => {
    const uses = [
      "import { Buffer } from 'node:buffer'",
      'const bytes = Buffer.from(x)',
      'process.env',
      'require(x)',
    ]
    assert.deepEqual(
      uses.map((each) => nodeUsesOf(each).length > 0),
      [true, true, true, true],
    )
    assert.deepEqual(
      nodeUsesOf("/** A Buffer. */ call('process') // process.env\ninterface A { process: 1 }"),
      [],
    )
  })
})

/** The modules and globals of Node that a source uses. */
function nodeUsesOf(source: string): string[] {
  const code = source
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/(?<!['"`:])\/\/.*$/gm, '')
    .replaceAll(/(['"])(?!node:)(?:(?!\1|\n).)*\1/g, "''")
  return (
    code.match(/['"]node:[^'"]*|\b(?:Buffer|process|global|setImmediate|require|__dirname)\b(?!\??:)/g) ?? []
  )
}

describe('the lock file', () => {
  it('lists every optional package, so that an install needs no complete registry', () => {
    const { packages } = JSON.parse(text('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const missing = Object.entries(packages).flatMap(([path, locked]) =>
      Object.keys(locked.optionalDependencies ?? {}).filter(
        (name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages),
      ),
    )
    assert.deepEqual(missing, [])
  })

  it('names no registry host', () => {
    assert.doesNotMatch(text('package-lock.json'), /"resolved": "http/)
  })

  it('names no registry host in the lock of another package either', () => {
    const locks = globSync(
      '{integrations/*,clients/typescript/runtimes,console,test/node-26}/package-lock.json',
      { cwd: root },
    )
    assert.ok(locks.length > 0)
    for (const lock of locks) assert.doesNotMatch(text(lock), /"resolved": "http/, lock)
  })

  it("has no package that npm warns about on the README's Node version", () => {
    const node = Number(/Node (\d+) or later/.exec(text('README.md'))![1])
    const { packages } = JSON.parse(text('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const faults = Object.entries(packages)
      .filter(([, { engines }]) => engines?.node !== undefined && !allows(engines.node, node))
      .map(([path, { engines }]) => `${path} wants Node ${engines!.node}`)
    assert.deepEqual(faults, [])
    assert.deepEqual(
      ['>= 18', '^18 || >=20', '20 || >=22', '*', '>=22', '^18.0.0 || ^22', '>=20.19'].map((range) =>
        allows(range, 20),
      ),
      [true, true, true, true, false, false, false],
    )
  })

  it('has no package with an install script that package.json does not mention', () => {
    const { packages } = JSON.parse(text('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const { allowScripts } = JSON.parse(text('package.json')) as { allowScripts: Record<string, boolean> }
    const withScripts = Object.keys(packages).filter((path) => packages[path]!.hasInstallScript)
    assert.deepEqual(
      withScripts.map((path) => path.replace(/.*node_modules\//, '')).sort(),
      Object.keys(allowScripts).sort(),
    )
  })
})

/** Whether the first release of a major version is in an npm range, for the range syntax that `engines` use. */
function allows(range: string, major: number): boolean {
  return range.split('||').some((part) => {
    const [, operator, from, rest = ''] = /^\s*(>=|\^|)\s*v?(\d+)([.\dx*]*)\s*$/.exec(part) ?? []
    if (from === undefined) return part.trim() === '*'
    if (operator === '>=' && major > Number(from)) return true
    return major === Number(from) && !/[1-9]/.test(rest)
  })
}

interface LockedPackage {
  readonly engines?: { readonly node?: string }
  readonly hasInstallScript?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

interface Import {
  /** The path of the imported file, relative to the root. */
  readonly target: string
  readonly typeOnly: boolean
}

function importsOf(file: string): Import[] {
  const found = text(file).matchAll(/^(?:import|export)\s+(type\s)?[^'"`;]*?from\s+['"](\.[^'"]+)['"]/gm)
  return [...found].map(([, type, path]) => ({
    target: relative(root, join(root, dirname(file), path!)),
    typeOnly: type !== undefined,
  }))
}

function layerOf(file: string): string {
  return file.split('/')[1]!
}

function isAllowed(from: string, to: string, typeOnly: boolean): boolean {
  if (from === to) return true
  const onlyTypes = typesOnly.some(([importer, imported]) => importer === from && imported === to)
  return (mayImport[from] ?? []).includes(to) && (typeOnly || !onlyTypes)
}

const inBenchToo = /^(?:src|test\/support)\/|^test\/cluster\/(?:cluster-processes|parts)\.ts$|^package\.json$/

/** The layer of a file: `shared`, `cluster`, `words`, or two parts of its path, like `index/run` or `index/main.ts`. */
function benchLayerOf(file: string): string {
  const [, first, second] = file.split('/')
  return first === 'shared' || first === 'cluster' || first === 'words' ? first : `${first}/${second}`
}

function isAllowedInBench(file: string, target: string): boolean {
  if (!target.startsWith('bench/')) return inBenchToo.test(target)
  const [from, to] = [benchLayerOf(file), benchLayerOf(target)]
  return from === to || (benchMayImport[from] ?? []).includes(to)
}

/**
 * The files that import themselves, directly or through others. Types do not count: a program has none when it runs, and
 * an interface only to break such a cycle would repeat a class.
 */
function inCycles(files: readonly string[]): string[] {
  const targetsOf = (file: string): readonly string[] =>
    importsOf(file).flatMap(({ target, typeOnly }) => (typeOnly ? [] : [target]))
  const graph = new Map(files.map((file) => [file, targetsOf(file)]))
  return files.filter((file) => reaches(graph, file, file))
}

function reaches(graph: ReadonlyMap<string, readonly string[]>, from: string, goal: string): boolean {
  const seen = new Set<string>()
  const open = [...(graph.get(from) ?? [])]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === goal) return true
    if (seen.has(next)) continue
    seen.add(next)
    open.push(...(graph.get(next) ?? []))
  }
  return false
}

function text(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}
