import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { readNamed } from '../src/cli/arguments.ts'
import { run, temporaryDirectory } from './support/process.ts'

const main = join(import.meta.dirname, '../src/cli/main.ts')

describe('unusable files', () => {
  it('are named, with their option and the cause', async () => {
    await using directory = await temporaryDirectory()
    const at = (name: string): string => join(directory.path, name)
    await writeFile(at('points.jsonl'), '{"vector": [1], "content": "one"}\n')
    await writeFile(at('rows.i8'), 'x')
    const key = ['--api-key', 'x']
    const cases: [string[], number, string][] = [
      [['import', at('none'), ...key], 2, `${at('none')} does not exist`],
      [['import', at('.'), ...key], 2, `${at('.')} is a directory, it must be a file`],
      [
        ['import', at('rows.i8'), '--texts', at('none'), '--dimension', '1', ...key],
        2,
        `--texts: ${at('none')} does not exist`,
      ],
      [
        ['import', at('points.jsonl'), '--ids', at('no/ids'), ...key],
        1,
        `there is no directory ${at('no')} for ${at('no/ids')}: create it, or name another`,
      ],
      [
        ['query', '--vector-file', at('.'), ...key],
        2,
        `--vector-file: ${at('.')} is a directory, it must be a file`,
      ],
      [
        ['get', 'x', '--api-key-file', at('.')],
        2,
        `--api-key-file: ${at('.')} is a directory, it must be a file`,
      ],
      [['get', 'x', '--ca-file', at('none'), ...key], 2, `--ca-file: ${at('none')} does not exist`],
      [['snapshot', 'verify', at('none')], 2, `${at('none')} does not exist`],
      [
        ['snapshot', 'restore', at('.'), '--data-dir', at('new')],
        2,
        `${at('.')} is a directory, it must be a file`,
      ],
      [
        ['serve', '--data-dir', at('rows.i8')],
        1,
        `data directory ${at('rows.i8')} (DATA_DIR) cannot be used: it is a file: set DATA_DIR to a directory (${at('rows.i8')})`,
      ],
      [
        ['serve', '--data-dir', at('rows.i8/data')],
        1,
        `data directory ${at('rows.i8/data')} (DATA_DIR) cannot be used: a part of its path is a file: set DATA_DIR to a directory (${at('rows.i8/data')})`,
      ],
    ]
    for (const command of ['doctor', 'export']) {
      const message = `data directory ${at('rows.i8')} (DATA_DIR) cannot be used: a part of its path is a file: set DATA_DIR to a directory (${at('rows.i8')})`
      cases.push([[command, '--data-dir', at('rows.i8')], 1, message])
    }
    for (const [args, code, message] of cases) {
      const ended = await run(args)
      assert.deepEqual([ended.code, ended.stderr], [code, `vicinal: ${message}\n`], args.join(' '))
    }
  })

  it('include data directories of another user', {
    skip: process.platform === 'win32' && 'has no owners',
  }, async () => {
    await using directory = await temporaryDirectory()
    await chmod(directory.path, 0o755)
    const own = process.getuid!()
    // Root may write everywhere, so another user has to try.
    const user = own === 0 ? 65_534 : own
    const closed = join(directory.path, 'closed')
    const damaged = join(directory.path, 'with-a-file')
    await mkdir(closed)
    await mkdir(damaged)
    await writeFile(join(damaged, 'collections.mdb'), '', { mode: 0o400 })
    await chmod(closed, 0o555)
    const hidden = join(directory.path, 'hidden')
    await mkdir(join(hidden, 'data'), { recursive: true })
    await chmod(hidden, 0)
    if (own === 0) await chown(damaged, user, user)
    for (const [command, dataDir, path] of [
      ['serve', closed, closed],
      ['serve', join(closed, 'new'), join(closed, 'new')],
      ['serve', damaged, join(damaged, 'collections.mdb')],
      ['doctor', closed, closed],
      ['export', closed, closed],
      ['doctor', join(hidden, 'data'), join(hidden, 'data')],
      ['export', join(hidden, 'data'), join(hidden, 'data')],
    ] as const) {
      const child = spawn(process.execPath, [main, command, '--data-dir', dataDir], { env: {}, uid: user })
      let stderr = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text
      })
      const [code] = (await once(child, 'close')) as [number]
      const message = `vicinal: data directory ${dataDir} (DATA_DIR) cannot be used: this user (${user}) may not write there: run it as the owner, change the owner, or set DATA_DIR to another directory (${path})\n`
      assert.deepEqual([code, stderr], [1, message])
    }
  })

  it('do not include readable files', async () => {
    await using directory = await temporaryDirectory()
    await writeFile(join(directory.path, 'key'), 'text')
    assert.equal(readNamed(join(directory.path, 'key'), '--api-key-file'), 'text')
  })
})
