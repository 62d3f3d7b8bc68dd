import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Doorbell } from './messages.ts'

it('calls the listener once for all rings before it listens again', async () => {
  const doorbell = new Doorbell()
  let heard = 0
  const listening = (): Promise<void> =>
    new Promise((resolve) => {
      doorbell.listen(() => {
        heard += 1
        resolve()
      })
    })
  const first = listening()
  for (let time = 0; time < 5; time += 1) doorbell.ring()
  await first
  doorbell.ring()
  assert.equal(heard, 1)
  const second = listening()
  new Doorbell(doorbell.buffer).ring()
  await second
  assert.equal(heard, 2)
})
