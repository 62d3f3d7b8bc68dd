import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { seededRandom } from '../support/random.ts'
import { anywhere, type Damage, DamagedDirectories, type Finding, flips, truncations } from './damage.ts'

/** Flipped bits, zeroed sectors and truncations at seeded places of every file of a data directory. */

const seed = 20_260_604

describe('a damaged data directory', () => {
  let directories: DamagedDirectories
  before(async () => {
    directories = await DamagedDirectories.create()
  })
  after(() => directories[Symbol.asyncDispose]())

  it('is refused if the vectors are damaged: the error names the file and the remedy, and the doctor reports it', async () => {
    const findings = await damageAnywhere('collections/0/vectors.rows', 8)
    assertOutcomes(findings, ['refused', 'whole'])
    assert.ok(findings.some(({ outcome }) => outcome === 'refused'))
    for (const { outcome, isSeenByDoctor } of findings) if (outcome === 'refused') assert.ok(isSeenByDoctor)
  })

  it('is repaired if the index is damaged, and the doctor names the fault', async () => {
    const findings = await damageAnywhere('collections/0/index/graph-0-0.bin', 6)
    assertOutcomes(findings, ['whole'])
    assert.ok(findings.some(({ isSeenByDoctor }) => isSeenByDoctor))
  })

  it('matches filters as before if the attribute file is damaged', async () => {
    assertOutcomes(await damageAnywhere('collections/0/index/attributes.bin', 6), ['whole'])
  })

  it('serves no damaged payload: reading that point fails with an error that names the file', async () => {
    const findings: Finding[] = []
    for (const byte of directories.contentBytes('collections.mdb', 3)) {
      findings.push(await directories.damage('collections.mdb', { kind: 'flip', byte, bit: byte % 8 }))
    }
    assertOutcomes(findings, ['read refused', 'whole'])
    assert.ok(findings.some(({ outcome }) => outcome === 'read refused'))
    for (const { outcome, isSeenByDoctor } of findings)
      if (outcome === 'read refused') assert.ok(isSeenByDoctor)
  })

  it('is not affected by damage to files without data', async () => {
    for (const file of ['reserve', 'collections.mdb-lock']) {
      assertOutcomes(await damageAnywhere(file, 1), ['whole'])
    }
  })

  it('is served, or refused with an error that names the lock file, if that file is damaged', async () => {
    assertOutcomes(await damageAnywhere('lock.db', 1), ['whole', 'refused'])
  })

  it('is refused if the database is truncated anywhere', () => {
    const size = directories.sizeOf('collections.mdb')
    assert.deepEqual(directories.unnoticed(truncations(size, 499)), [])
  })

  it('is refused if LMDB could crash, or serves only what was stored', async () => {
    const size = directories.sizeOf('collections.mdb')
    const unnoticed = directories.unnoticed(flips(size, 600, seededRandom(seed)))
    assert.ok(unnoticed.length < 550, `${unnoticed.length} pass unnoticed`)
    for (const damage of unnoticed.slice(0, 6)) {
      assertOutcomes([await directories.damage('collections.mdb', damage)], ['read refused', 'whole'])
    }
    assertOutcomes(await damageAnywhere('collections.mdb', 4), ['refused', 'read refused', 'whole'])
  })

  async function damageAnywhere(file: string, count: number): Promise<(Finding & { damage: Damage })[]> {
    const size = Math.max(1, directories.sizeOf(file))
    const findings: (Finding & { damage: Damage })[] = []
    for (const damage of anywhere(size, count, seededRandom(seed))) {
      findings.push({ ...(await directories.damage(file, damage)), damage })
    }
    return findings
  }
})

function assertOutcomes(findings: readonly Finding[], allowed: readonly Finding['outcome'][]): void {
  const others = findings.filter(({ outcome }) => !allowed.includes(outcome))
  assert.deepEqual(others, [], `seed ${seed}`)
}
