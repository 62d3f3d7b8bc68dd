import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { createLogger } from '../base/log.ts'
import { FrameSender } from './frame-sender.ts'
import { PeerAnswers } from './peer-answers.ts'
import { decodeFrame, type Frame } from './peer-frames.ts'
import type { PeerHandler } from './peers.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const echo = 2
const callsMax = 3

/** The answering end of a stream, without a network, and the frames that it has sent. */
class AnsweringEnd {
  readonly answers: PeerAnswers
  readonly sent: Frame[] = []
  /** The requests that arrived completely. */
  readonly requests: string[] = []

  constructor() {
    const answerEcho: PeerHandler = async (body) => {
      this.requests.push(body.toString())
      return body
    }
    const stream = { write: (bytes: Buffer) => this.sent.push(decodeFrame(bytes)) > 0, on: () => stream }
    this.answers = new PeerAnswers({
      ...{ node: 'a', handlers: new Map([[echo, answerEcho]]), sender: new FrameSender(stream) },
      ...{ callsMax, messageBytesMax: 1000, logger },
    })
  }

  /** Takes the first piece of a request. */
  ask(call: number, text: string, { isWhole = true, timeoutMs = 0 } = {}): void {
    this.answers.take({ kind: 'ask', call, method: echo, timeoutMs, isWhole, bytes: Buffer.from(text) })
  }

  /** Takes the last piece of a request. */
  rest(call: number, text: string): void {
    this.answers.take({ kind: 'rest', call, isWhole: true, bytes: Buffer.from(text) })
  }

  /** The answers and failures so far, by call. */
  async outcomes(): Promise<Record<number, string>> {
    await new Promise(setImmediate)
    return Object.fromEntries(
      this.sent.map((frame) => {
        if (frame.kind === 'answer') return [frame.call, frame.bytes.toString()]
        assert.ok(frame.kind === 'failure')
        return [frame.call, frame.reason]
      }),
    )
  }
}

describe('the answering end of the link', () => {
  it('forgets calls that are cancelled before their requests have arrived', async () => {
    const end = new AnsweringEnd()
    for (let call = 1; call <= callsMax; call += 1) {
      end.ask(call, 'begun', { isWhole: false })
      end.answers.take({ kind: 'cancel', call })
    }
    end.ask(callsMax + 1, 'next')
    // A piece that was on its way when the call was cancelled.
    end.rest(1, 'late')
    assert.deepEqual(await end.outcomes(), { [callsMax + 1]: 'next' })
    assert.deepEqual(end.requests, ['next'])
  })

  it('refuses and forgets calls whose deadlines pass before their requests have arrived', async (t: TestContext) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const end = new AnsweringEnd()
    const late = Array.from({ length: callsMax }, (_, index) => 1 + index)
    for (const call of late) end.ask(call, 'begun', { isWhole: false, timeoutMs: 20 })
    t.mock.timers.tick(20)
    end.ask(callsMax + 1, 'next')
    end.rest(1, 'late')
    assert.deepEqual(await end.outcomes(), {
      ...Object.fromEntries(late.map((call) => [call, 'deadline_exceeded'])),
      [callsMax + 1]: 'next',
    })
    assert.deepEqual(end.requests, ['next'])
  })

  it('answers calls whose requests arrive in pieces', async () => {
    const end = new AnsweringEnd()
    end.ask(1, 'one, ', { isWhole: false, timeoutMs: 60_000 })
    end.ask(2, 'two, ', { isWhole: false })
    end.rest(2, 'whole')
    end.rest(1, 'whole')
    assert.deepEqual(await end.outcomes(), { 1: 'one, whole', 2: 'two, whole' })
  })
})
