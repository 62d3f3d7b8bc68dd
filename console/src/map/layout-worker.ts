import { arrange, type Neighbours, pairsOf, randomFrom, startOf } from './layout.ts'

/** Positions after some epochs, and how much is done. */
export interface LayoutMessage {
  readonly positions: Float32Array<ArrayBuffer>
  readonly share: number
}

const seed = 4711
/** Often enough for the eye; of many points, to draw one picture takes as long as a few epochs. */
const reportMs = 80
const reportMsOfMany = 300
const many = 20_000

// Ended by `terminate`, so it never has to look for messages while it computes.
addEventListener('message', ({ data }: MessageEvent<Neighbours>) => {
  const random = randomFrom(seed)
  const pairs = pairsOf(data)
  const positions = startOf(data.count, pairs, random)
  report(positions, 0)
  let reportedMs = performance.now()
  const pauseMs = data.count > many ? reportMsOfMany : reportMs
  for (const share of arrange(positions, pairs, random)) {
    if (share < 1 && performance.now() - reportedMs < pauseMs) continue
    report(positions, share)
    reportedMs = performance.now()
  }
})

function report(positions: Float32Array, share: number): void {
  const message: LayoutMessage = { positions: Float32Array.from(positions), share }
  postMessage(message, { transfer: [message.positions.buffer] })
}
