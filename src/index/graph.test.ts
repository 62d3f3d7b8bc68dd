import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { graphHash } from '../../test/support/graph-hash.ts'

const seed = 7
const program = join(import.meta.dirname, '../../test/support/graph-hash.ts')

describe(`a graph built by one thread, seed ${seed}`, () => {
  for (const dimension of [24, 100, 512]) {
    it(`is the same in every build of the kernels, ${dimension} dimensions`, async () => {
      const relaxed = await graphHash('relaxed', dimension, seed)
      assert.equal(await graphHash('simd', dimension, seed), relaxed)
      assert.notEqual(await graphHash('relaxed', dimension, seed + 1), relaxed, 'the hash tells graphs apart')
      for (const variant of ['relaxed', 'simd'] as const) {
        const { stdout } = await promisify(execFile)(process.execPath, [
          '--experimental-wasm-revectorize',
          program,
          ...[variant, String(dimension), String(seed)],
        ])
        assert.equal(stdout.trim(), relaxed, `${variant}, in wider registers`)
      }
    })
  }
})
