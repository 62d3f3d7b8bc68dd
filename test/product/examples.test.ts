import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { settings } from '../../src/settings/table.ts'
import { temporaryDirectory } from '../support/process.ts'

/** The files of docs/examples that operators install, run unchanged. nginx.conf has a separate test. */

const root = join(import.meta.dirname, '../..')
const examples = join(root, 'docs/examples')
const units = globSync('*.{service,timer}', { cwd: examples })

const withoutSystemd =
  spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not installed'

describe('the units for systemd', () => {
  it('are accepted by systemd without a warning', { skip: withoutSystemd }, async () => {
    await using directory = await temporaryDirectory()
    for (const name of units) {
      // The commands that they start are not installed here.
      const unit = readFileSync(join(examples, name), 'utf8').replace(/^ExecStart=\S+/gm, 'ExecStart=/bin/sh')
      writeFileSync(join(directory.path, name), unit)
    }
    const paths = units.map((name) => join(directory.path, name))
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...paths], {
      encoding: 'utf8',
    })
    // Ignore messages about other units of the machine.
    const ours = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('vicinal'))
    assert.deepEqual({ status, ours }, { status: 0, ours: [] })
  })

  it('restrict the service to what it needs', { skip: withoutSystemd }, () => {
    const unit = join(examples, 'vicinal.service')
    const security = ['security', '--offline=true', '--threshold=20', unit]
    const { status, stderr } = spawnSync('systemd-analyze', security, { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  })

  it('set only existing settings', () => {
    const known = ['PATH', ...Object.values(settings).map(({ env }) => env)]
    const set = units.flatMap((name) => [
      ...readFileSync(join(examples, name), 'utf8').matchAll(/^Environment=(\w+)=/gm),
    ])
    assert.ok(set.length > 0)
    assert.deepEqual(
      set.map(([, name]) => name!).filter((name) => !known.includes(name)),
      [],
    )
  })
})
