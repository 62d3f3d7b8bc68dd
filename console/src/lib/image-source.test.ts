import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { imageSourceOf } from './image-source.ts'

describe('the content of a point is shown as an image', () => {
  const allowed = ['https://images.example.org']

  it('if it is image data', () => {
    assert.equal(imageSourceOf('data:image/png;base64,AAAA', []), 'data:image/png;base64,AAAA')
    assert.equal(imageSourceOf('data:text/html,<script>', allowed), undefined)
  })

  it('if it is an address at an allowed origin, and only then', () => {
    assert.equal(
      imageSourceOf('https://images.example.org/a.png', allowed),
      'https://images.example.org/a.png',
    )
    for (const content of [
      'https://images.example.org.attacker.example/a.png',
      'https://images.example.org:8443/a.png',
      'http://images.example.org/a.png',
      'https://user@attacker.example/https://images.example.org',
      'javascript:alert(1)',
      '//images.example.org/a.png',
      'https://',
    ]) {
      assert.equal(imageSourceOf(content, allowed), undefined, content)
    }
  })
})
