import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { graphHash } from '../../test/support/graph-hash.ts'
import { kernelVariants } from '../kernels/wasm-module.ts'
import { codeBitsChoices } from './segment.ts'

const seed = 7

describe(`a graph built by one thread, seed ${seed}`, () => {
  for (const bits of codeBitsChoices) {
    for (const dimension of [24, 100, 512]) {
      it(`is the same in every build of the kernels, codes of ${bits} bits, ${dimension} dimensions`, () => {
        const first = graphHash({ variant: 'relaxed', isWide: false }, dimension, bits, seed)
        for (const variant of kernelVariants) {
          for (const isWide of [true, false]) {
            const hash = graphHash({ variant, isWide }, dimension, bits, seed)
            assert.equal(hash, first, `${variant}${isWide ? ', wide' : ''}`)
          }
        }
        const other = graphHash({ variant: 'relaxed', isWide: false }, dimension, bits, seed + 1)
        assert.notEqual(other, first, 'the hash tells graphs apart')
      })
    }
  }
})
