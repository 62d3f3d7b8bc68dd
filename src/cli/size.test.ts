import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { run } from '../../test/support/process.ts'

describe('vicinal size', () => {
  it('prints the memory and disk that points take', async () => {
    const { stdout, code } = await run(['size', '10M', 'x', '768'], {})
    assert.equal(code, 0)
    assert.match(stdout, /^10,000,000 points of 768 components\n/)
    assert.match(stdout, /\nvectors in memory +39\.\d GiB +36\.\d GiB\n/)
    assert.match(stdout, /\nVECTORS_ON_DISK=true +6\.\d GiB +40\.\d GiB\n/)
  })

  it('names the settings with which points fit, and how many do', async () => {
    const fit = async (...args: string[]): Promise<{ fits: string | null; points_max: number }> =>
      JSON.parse((await run(['size', ...args, '--json'], {})).stdout)
    assert.equal((await fit('10Mx128', '--memory', '24G')).fits, 'MAX_MEMORY_BYTES=18432M')
    assert.equal(
      (await fit('10Mx768', '--memory', '24G')).fits,
      'VECTORS_ON_DISK=true MAX_MEMORY_BYTES=18432M',
    )
    const many = await fit('100Mx768', '--memory', '24G')
    assert.equal(many.fits, null)
    const most = await fit(`${many.points_max}`, 'x', '768', '--memory', '24G')
    assert.equal(most.fits, 'VECTORS_ON_DISK=true MAX_MEMORY_BYTES=18432M', 'as many as it says fit')
    assert.equal((await fit(`${many.points_max + 1000}x768`, '--memory', '24G')).fits, null, 'and no more')
  })

  it('refuses what is not a number of points and components', async () => {
    for (const words of ['768', 'ten x 768', '0 x 768', '10M x 0', '10M x 65536']) {
      const { code, stderr } = await run(['size', ...words.split(' ')], {})
      assert.equal(code, 2, words)
      assert.match(stderr, /number of (points|components)/, words)
    }
  })
})
