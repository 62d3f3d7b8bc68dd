import { arrange, type Neighbours, pairsOf, randomFrom, startOf } from './layout.ts'

/** The positions after some epochs, and the completed share of the layout. */
export interface LayoutMessage {
  readonly positions: Float32Array<ArrayBuffer>
  readonly share: number
}

const seed = 4711
/** Short enough for a smooth animation. With many points, drawing one picture takes as long as a few epochs. */
const reportMs = 80
const reportMsOfMany = 300
const many = 20_000

// The page stops the worker with `terminate`, so it need not check for messages while it computes.
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
