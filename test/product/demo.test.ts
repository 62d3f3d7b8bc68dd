import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Command, temporaryDirectory } from '../support/process.ts'

const root = join(import.meta.dirname, '../..')
const uuid = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

/** The demo as `npm run demo` starts it, with its own data directory. */
function startDemo(dataDir: string): Command {
  const settings = { DATA_DIR: dataDir, HTTP_PORT: '0', GRPC_PORT: '0' }
  return new Command([], settings, join(root, 'demo/demo.ts'))
}

async function stop(demo: Command): Promise<number | null> {
  demo.kill('SIGINT')
  return (await demo.ended).code
}

describe('the demo', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let demo: Command
  before(async () => {
    directory = await temporaryDirectory()
    demo = startDemo(directory.path)
  })
  after(async () => {
    await stop(demo)
    await directory[Symbol.asyncDispose]()
  })

  it('stores the glosses and searches them, also with a filter', async () => {
    await demo.says(/Ctrl-C stops the service/)
    assert.match(demo.stdout, /Stored 2046 glosses/)
    assert.equal(demo.stdout.match(/^Searched over (HTTP|gRPC) for the nearest to$/gm)!.length, 6)
    assert.match(demo.stdout, /^Nearest to anadama bread among the 218 nouns about animals/m)
    assert.match(demo.stdout, /^Best for the word Samoyed.*\n.* Samoyed, .*\n.* jackal, .* canine mammal/m)
  })

  for (const [command, shown] of readmeQueries()) {
    it(`returns what the README shows: ${command.replaceAll(/\s+/g, ' ')}`, async () => {
      const [, address] = await demo.says(/gRPC at ([\w.]+:\d+)/)
      const here = command.replace('data/demo/api-key', `${directory.path}/api-key --grpc ${address}`)
      assert.notEqual(here, command)
      const { stdout } = await promisify(execFile)('bash', ['-c', here], { cwd: root })
      assert.equal(stdout.replaceAll(uuid, 'id'), shown.replaceAll(uuid, 'id'))
    })
  }

  it('stops on a signal, and finds its glosses after a restart', async () => {
    assert.equal(await stop(demo), 0)
    assert.match(demo.stdout, /SIGINT: stopping/)
    demo = startDemo(directory.path)
    await demo.says(/The glosses are already stored/)
  })
})

/** The demo commands of the README, and the output that it shows for them. */
function readmeQueries(): readonly (readonly [command: string, shown: string])[] {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, start] = /^## Quick start\n(.*?)^## /ms.exec(readme)!
  const blocks = [...start!.matchAll(/^```(\w*)\n([\s\S]*?)^```\n/gm)]
  const shown = blocks.flatMap(([, , source], index) => {
    const command = /^npm run -s vicinal -- query [\s\S]*/m.exec(source!)?.[0]
    return command === undefined ? [] : [[command, blocks[index + 1]![2]!] as const]
  })
  assert.ok(shown.length > 0)
  return shown
}
