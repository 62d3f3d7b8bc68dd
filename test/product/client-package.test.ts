import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { clientProject } from '../support/client-project.ts'
import { apiKey, startTestService, type TestService } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')
const execute = promisify(execFile)

/** The TypeScript client, packed and installed into an empty project, as users get it. */
describe('the package vicinal-client', () => {
  let directory: AsyncDisposable & { readonly path: string }
  let project: string
  let service: TestService

  before(async () => {
    directory = await clientProject()
    project = directory.path
    service = await startTestService()
  })
  after(async () => {
    await service?.[Symbol.asyncDispose]()
    await directory?.[Symbol.asyncDispose]()
  })

  it('has the version of the service and no dependencies', () => {
    const read = (path: string): { version: string; dependencies?: object } =>
      JSON.parse(readFileSync(join(root, path), 'utf8'))
    assert.equal(read('clients/typescript/package.json').version, read('package.json').version)
    assert.equal(read('clients/typescript/package.json').dependencies, undefined)
    assert.deepEqual(
      readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.')),
      ['vicinal-client'],
    )
  })

  it('runs the example of its README as an ES module, and loads with require', async () => {
    const [example] = exampleOf(readFileSync(join(root, 'clients/typescript/README.md'), 'utf8'))
    const program = example!.replace('http://127.0.0.1:3000', service.httpUrl)
    writeFileSync(join(project, 'example.mts'), program)
    const { stdout } = await execute(process.execPath, ['example.mts'], { cwd: project })
    assert.match(stdout, /a small café by the river\n1 cost less than 10\na small café by the river\n$/)
    const required = `const { createHttpClient } = require('vicinal-client')
      createHttpClient({ baseUrl: '${service.httpUrl}' }).count().then(console.log)`
    writeFileSync(join(project, 'required.cjs'), required)
    assert.equal((await execute(process.execPath, ['required.cjs'], { cwd: project })).stdout, '1\n')
  })

  it('has types that compile in strict mode', async () => {
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', '']
    const tsc = join(root, 'node_modules/.bin/tsc')
    const { stdout } = await execute(tsc, [...options, 'example.mts'], { cwd: project }).catch(
      (error) => error,
    )
    assert.equal(stdout, '')
  })

  it('speaks gRPC if the two gRPC packages are installed', async () => {
    // Linked from this repository, so that the test needs no registry.
    for (const scope of ['@grpc', '@bufbuild']) {
      symlinkSync(join(root, 'node_modules', scope), join(project, 'node_modules', scope))
    }
    const { port } = service.service.grpcAddress
    const program = `import { createGrpcClient } from 'vicinal-client/grpc'
      const client = createGrpcClient({ address: '127.0.0.1:${port}', apiKey: '${apiKey}' })
      console.log(await client.count({ price: { $lt: 10 } }))
      await client.close()`
    writeFileSync(join(project, 'grpc.mjs'), program)
    assert.equal((await execute(process.execPath, ['grpc.mjs'], { cwd: project })).stdout, '1\n')
  })
})

/** The TypeScript code blocks. */
function exampleOf(markdown: string): string[] {
  return [...markdown.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code!)
}
