import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { applyPatch, checkPatchPaths, selectAttributes } from './attribute-patch.ts'
import { attributesFromJson, attributesToJson } from './attributes.ts'
import type { Patch, Payload } from './point.ts'

const before = '{"a":{"b":1,"c":2},"list":[{"x":1,"y":2},[{"x":3}],4],"n":1}'

function payload(attributes: string | undefined): Payload {
  const base = { contentType: 'Text', content: 'c' } as const
  return attributes === undefined ? base : { ...base, attributes: attributesFromJson(attributes) }
}

function patched(text: string | undefined, patch: Patch): string | undefined {
  const { attributes } = applyPatch(payload(text), patch)
  return attributes && attributesToJson(attributes)
}

const set = (entries: Record<string, string>): Patch => ({
  set: new Map(
    Object.entries(entries).map(([path, json]) => [path, attributesFromJson(`{"v":${json}}`).get('v')!]),
  ),
})

describe('a patch', () => {
  it('sets values by path and creates missing maps', () => {
    assert.equal(
      patched('{"a":{"b":1}}', set({ 'a.c': '2', 'd.e.f': '"x"', n: '[1]' })),
      '{"a":{"b":1,"c":2},"d":{"e":{"f":"x"}},"n":[1]}',
    )
    assert.equal(patched(undefined, set({ 'a.b': '1' })), '{"a":{"b":1}}')
    assert.equal(patched('{"a":{"b":1}}', set({ a: '{"c":2}' })), '{"a":{"c":2}}')
    assert.equal(patched(undefined, set({ '__proto__.constructor': '1' })), '{"__proto__":{"constructor":1}}')
  })

  it('refuses a path through a value that is not a map', () => {
    for (const [text, words] of [
      ['{"a":1}', /set has the path "a\.b\.c", but "a" is a number and not a map/],
      ['{"a":[{"b":{}}]}', /but "a" is a list/],
      ['{"a":{"b":{"$date":"1970-01-01T00:00:00Z"}}}', /but "a\.b" is a date/],
    ] as const) {
      assert.throws(() => patched(text, set({ 'a.b.c': '1' })), {
        reason: 'invalid_argument',
        message: words,
      })
    }
  })

  it('removes by path, also through lists of maps, and ignores missing paths', () => {
    assert.equal(
      patched(before, { unset: ['a.b', 'list.x', 'nothing', 'n.m', 'a.z.z'] }),
      '{"a":{"c":2},"list":[{"y":2},[{}],4],"n":1}',
    )
    assert.equal(patched('{"a":1}', { unset: ['a'] }), undefined)
    assert.equal(patched(undefined, { unset: ['a'] }), undefined)
  })

  it('does not change the given payload', () => {
    const given = payload(before)
    applyPatch(given, { ...set({ 'a.b': '5' }), unset: ['list.x', 'a.c'] })
    assert.equal(attributesToJson(given.attributes!), before)
  })

  it('changes content and expiry, and keeps everything else', () => {
    const given = { ...payload('{"a":1}'), expiresAtUs: 5 }
    assert.deepEqual(applyPatch(given, { content: 'new' }), { ...given, content: 'new' })
    assert.deepEqual(applyPatch(given, { contentType: 'Image', expiresAtUs: 7 }), {
      ...given,
      contentType: 'Image',
      expiresAtUs: 7,
    })
    assert.deepEqual(applyPatch(given, { expiresAtUs: null }), payload('{"a":1}'))
  })

  it('is refused when the attributes would exceed a limit', () => {
    const text = JSON.stringify({ a: 'x'.repeat(40_000) })
    assert.throws(() => patched(text, set({ b: JSON.stringify('y'.repeat(40_000)) })), {
      reason: 'invalid_argument',
      message: /^attributes takes \d+ bytes as JSON, the maximum is 65536/,
    })
  })

  it('is refused when its paths overlap', () => {
    const check = (patch: Patch): void => checkPatchPaths(patch, '')
    check({ ...set({ 'a.b': '1', 'a.c': '1', ab: '1' }), unset: ['a.d', 'a.d.e', 'x', 'x'] })
    assert.throws(() => check(set({ a: '1', 'a.b': '1' })), /set has "a", which overlaps with "a\.b"/)
    assert.throws(
      () => check({ ...set({ 'a.b': '1' }), unset: ['a'] }),
      /set has "a\.b", which overlaps with "a"/,
    )
    assert.throws(() => check({ ...set({ a: '1' }), unset: ['a'] }), /overlaps/)
    assert.throws(() => check({ unset: ['a', 'b..c'] }), /^DatabaseError: unset\[1\] has an empty name/)
    assert.throws(() => check({ unset: Array.from({ length: 257 }, () => 'a') }), /unset has 257 paths/)
  })
})

describe('selected attributes', () => {
  const selected = (...paths: string[]): string | undefined => {
    const found = selectAttributes(attributesFromJson(before), paths)
    return found && attributesToJson(found)
  }

  it('are at their paths in the maps and lists that lead there', () => {
    assert.equal(selected('a.b', 'n'), '{"a":{"b":1},"n":1}')
    assert.equal(selected('list.x'), '{"list":[{"x":1},[{"x":3}]]}')
    assert.equal(selected('a.b', 'a'), '{"a":{"b":1,"c":2}}')
    assert.equal(selected('a', 'a.b'), '{"a":{"b":1,"c":2}}')
  })

  it('are absent when the paths have no value', () => {
    assert.equal(selected('x', 'a.x', 'n.x', 'list.z'), undefined)
    assert.equal(selected(), undefined)
    assert.equal(selectAttributes(undefined, ['a']), undefined)
  })

  it('can be all attributes', () => {
    const attributes = attributesFromJson(before)
    assert.equal(selectAttributes(attributes, 'all'), attributes)
  })
})
