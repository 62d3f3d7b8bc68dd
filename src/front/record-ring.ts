import { inTurns } from '../base/turns.ts'
import type { Doorbell } from '../engine/doorbell.ts'
import { RecordSpace } from '../engine/record-space.ts'
import { atOnce, type Parts } from './parts.ts'
import { RecordMemory, RecordReader, RecordWriter } from './record.ts'

/**
 * The shared memory through which records go one way, from one thread to one other.
 *
 *   ├ words ────────────────────────────┼ places ────────────────┼ records ────────────┤
 *   │ submitted, taken, isSenderWaiting │ where record n stands, │                     │
 *   │                                   │ at n mod 128           │                     │
 *
 * The sender alone decides where a record stands, and writes it whole before it counts it as submitted. The
 * receiver takes records in order and copies what it keeps: once it has counted a record as taken, the sender
 * may write over it. Unlike a record of `SearchRing`, which stays until it is answered, one that is slow to be
 * answered holds up nothing here: answers go through a ring of their own, in any order.
 */
export class RecordRing {
  readonly buffer: SharedArrayBuffer
  readonly memory: RecordMemory
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(recordsAt + recordsBytes)) {
    this.buffer = buffer
    this.memory = new RecordMemory(buffer)
    this.#words = this.memory.i32
  }

  get submitted(): number {
    return Atomics.load(this.#words, words.submitted)
  }

  get taken(): number {
    return Atomics.load(this.#words, words.taken)
  }

  /** Whether the sender has records that found no room. */
  get isSenderWaiting(): boolean {
    return Atomics.load(this.#words, words.isSenderWaiting) === 1
  }

  /** Sender. */
  set isSenderWaiting(isWaiting: boolean) {
    Atomics.store(this.#words, words.isSenderWaiting, isWaiting ? 1 : 0)
  }

  /** Sender: what stands at this address is whole. */
  submit(at: number): void {
    this.#words[placesAt / 4 + (this.submitted & (recordsMax - 1))] = at
    Atomics.add(this.#words, words.submitted, 1)
  }

  /** Receiver: the address of the first record that is not taken; undefined when there is none. */
  get next(): number | undefined {
    const { taken } = this
    if (taken === this.submitted) return undefined
    return this.#words[placesAt / 4 + (taken & (recordsMax - 1))]!
  }

  /** Receiver: nothing of the first record is read any more. */
  take(): void {
    Atomics.add(this.#words, words.taken, 1)
  }
}

/** A record that is still to be written. */
export interface Outgoing {
  readonly bytes: number
  write(target: RecordWriter): Parts<void>
}

/**
 * Sends records through a ring, and those that are large in shared memory of their own. What finds no room in
 * the ring waits here; whoever uses this bounds that by `waitingBytes`.
 */
export class RecordSender {
  readonly #ring: RecordRing
  /** Of the receiver. */
  readonly #doorbell: Doorbell
  readonly #space = new RecordSpace(recordsBytes)
  readonly #postLarge: (buffer: SharedArrayBuffer) => void
  /** Large ones that are being written. */
  readonly #large = new Set<Outgoing>()
  #released: number
  #waiting: Outgoing[] = []
  #waitingBytes = 0

  /** @param postLarge posts the memory of a record that is too large for the ring */
  constructor(ring: RecordRing, doorbell: Doorbell, postLarge: (buffer: SharedArrayBuffer) => void) {
    this.#ring = ring
    this.#doorbell = doorbell
    this.#postLarge = postLarge
    this.#released = ring.taken
  }

  /** Bytes of records that wait for room. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  send(outgoing: Outgoing): void {
    if (outgoing.bytes > largeBytes) {
      void this.#sendLarge(outgoing, new SharedArrayBuffer(outgoing.bytes))
      return
    }
    this.#waiting.push(outgoing)
    this.#waitingBytes += outgoing.bytes
    this.flush()
  }

  /** Takes back a record that waits or is being written; false when it has gone. */
  withdraw(outgoing: Outgoing): boolean {
    if (this.#large.delete(outgoing)) return true
    const at = this.#waiting.indexOf(outgoing)
    if (at === -1) return false
    this.#waiting.splice(at, 1)
    this.#waitingBytes -= outgoing.bytes
    return true
  }

  /** Sends what waits, as far as there is room. To be called when the receiver has rung. */
  flush(): void {
    if (this.#waiting.length === 0) return
    this.#submitWaiting()
    if (this.#waiting.length > 0) {
      this.#ring.isSenderWaiting = true
      // What the receiver took before it could see that we wait for it.
      this.#submitWaiting()
    }
    if (this.#waiting.length === 0) this.#ring.isSenderWaiting = false
  }

  async #sendLarge(outgoing: Outgoing, buffer: SharedArrayBuffer): Promise<void> {
    this.#large.add(outgoing)
    await inTurns(outgoing.write(new RecordWriter(new RecordMemory(buffer), 0)))
    if (this.#large.delete(outgoing)) this.#postLarge(buffer)
  }

  #submitWaiting(): void {
    for (const { taken } = this.#ring; this.#released !== taken; this.#released = (this.#released + 1) | 0) {
      this.#space.release()
    }
    let sent = 0
    for (const outgoing of this.#waiting) {
      if (!this.#submit(outgoing)) break
      this.#waitingBytes -= outgoing.bytes
      sent += 1
    }
    if (sent === 0) return
    this.#waiting = this.#waiting.slice(sent)
    this.#doorbell.ring()
  }

  #submit(outgoing: Outgoing): boolean {
    const ring = this.#ring
    if (((ring.submitted - this.#released) | 0) >= recordsMax) return false
    const offset = this.#space.take(outgoing.bytes)
    if (offset === undefined) return false
    atOnce(outgoing.write(new RecordWriter(ring.memory, recordsAt + offset)))
    ring.submit(recordsAt + offset)
    return true
  }
}

/** Takes what has come through a ring. */
export class RecordReceiver {
  readonly #ring: RecordRing
  /** Of the sender. */
  readonly #doorbell: Doorbell
  readonly #receive: (record: RecordReader, isLarge: boolean) => void

  /** @param receive keeps the record only when it is large */
  constructor(
    ring: RecordRing,
    doorbell: Doorbell,
    receive: (record: RecordReader, isLarge: boolean) => void,
  ) {
    this.#ring = ring
    this.#doorbell = doorbell
    this.#receive = receive
  }

  /** Receives at most so many records; true when that was all that had come. */
  drain(atMost: number = recordsMax): boolean {
    for (let count = 0; count < atMost; count += 1) {
      const at = this.#ring.next
      if (at === undefined) return true
      try {
        this.#receive(new RecordReader(this.#ring.memory, at, true), false)
      } finally {
        this.#ring.take()
        if (this.#ring.isSenderWaiting) this.#doorbell.ring()
      }
    }
    return this.#ring.next === undefined
  }

  /** Receives a record that came in memory of its own, of which views may be kept. */
  receiveLarge(buffer: SharedArrayBuffer): void {
    this.#receive(new RecordReader(new RecordMemory(buffer), 0, false), true)
  }
}

/** Counters that different threads write stand in different cache lines. */
const words = { submitted: 0, taken: 16, isSenderWaiting: 32 } as const
const placesAt = 192

/** Records that may be on their way in one ring at once; a power of two. */
const recordsMax = 128
const recordsAt = placesAt + recordsMax * 4

/** Dozens of requests of any usual dimension. */
const recordsBytes = 1024 * 1024

/** A record that is larger than this would be in the way of the others. */
const largeBytes = recordsBytes / 4
