import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { buildIfOutdated } from '../scripts/up-to-date.ts'
import { temporaryDirectory } from './support/process.ts'

const root = join(import.meta.dirname, '..')

/** A project with an input and two outputs, and a build that counts how often it runs. */
async function project() {
  const directory = await temporaryDirectory()
  const [input, output] = ['input', 'output'].map((name) => join(directory.path, name)) as [string, string]
  const name = basename(directory.path)
  for (const folder of [input, output]) mkdirSync(folder)
  writeFileSync(join(input, 'source'), 'a')
  const write = (file: string): void => writeFileSync(join(output, file), 'built')
  let builds = 0
  /** Returns how often it was built. */
  const build = (between = () => {}): number => {
    buildIfOutdated(name, [input], [output], () => {
      builds += 1
      write('one')
      between()
      write('two')
    })
    return builds
  }
  const dispose = async (): Promise<void> => {
    rmSync(join(root, 'node_modules/.cache/built', name), { force: true })
    await directory[Symbol.asyncDispose]()
  }
  return { path: directory.path, name, input, output, build, [Symbol.asyncDispose]: dispose }
}

describe('a build', () => {
  it('is not repeated unless an input or an output changes, whatever their times', async () => {
    await using one = await project()
    assert.equal(one.build(), 1)
    utimesSync(join(one.input, 'source'), new Date(), new Date(Date.now() + 60_000))
    assert.equal(one.build(), 1)
    writeFileSync(join(one.input, 'source'), 'b')
    utimesSync(join(one.input, 'source'), 1, 1)
    assert.equal(one.build(), 2)
    rmSync(join(one.output, 'two'))
    assert.equal(one.build(), 3)
    writeFileSync(join(one.output, 'left'), '')
    assert.equal(one.build(), 4)
    assert.equal(one.build(), 4)
  })

  it('is repeated after one that failed, or during which an input changed', async () => {
    await using one = await project()
    one.build()
    const fail = (): void => {
      throw new Error('no space')
    }
    writeFileSync(join(one.input, 'source'), 'b')
    assert.throws(() => one.build(fail), /no space/)
    // The outputs are again those of the build before.
    writeFileSync(join(one.input, 'source'), 'a')
    assert.equal(one.build(), 3)
    writeFileSync(join(one.input, 'source'), 'c')
    one.build(() => writeFileSync(join(one.input, 'source'), 'd'))
    assert.equal(one.build(), 5)
  })

  it('is waited for by other processes, which use what it built', async () => {
    await using one = await project()
    const started = join(one.path, 'started')
    const program = `
      import { writeFileSync } from 'node:fs'
      import { buildIfOutdated } from ${JSON.stringify(join(root, 'scripts/up-to-date.ts'))}
      const [name, input, output, started] = process.argv.slice(1)
      writeFileSync(started, '')
      buildIfOutdated(name, [input], [output], () => process.exit(1))`
    const args = [one.name, one.input, one.output, started]
    let ended: Promise<unknown[]> | undefined
    one.build(() => {
      const other = spawn(process.execPath, ['--input-type=module', '-e', program, ...args], {
        stdio: 'inherit',
      })
      ended = once(other, 'exit')
      const sleeper = new Int32Array(new SharedArrayBuffer(4))
      for (let turn = 0; turn < 60_000 && !existsSync(started); turn += 1) Atomics.wait(sleeper, 0, 0, 1)
      // Time to build, if nothing kept it from that.
      Atomics.wait(sleeper, 0, 0, 100)
    })
    assert.deepEqual(await ended, [0, null])
    assert.ok(existsSync(join(one.output, 'two')))
  })
})
