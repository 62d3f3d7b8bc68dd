import { type Signal, signal } from '@preact/signals'
import { isAbort, messageOf } from '../api/client.ts'
import type { Payload } from '../api/types.ts'
import { type PlacedSample, withChange } from '../map/changed-sample.ts'
import type { LayoutMessage } from '../map/layout-worker.ts'
import { cutContent, loadSample, type MapSample, type SampleQuery } from '../map/sample.ts'

export type MapPhase = 'idle' | 'loading' | 'arranging' | 'done'

interface Layout extends PlacedSample {
  readonly question: string
}

/** A cache of the finished layouts of this page, newest last. */
const kept: Layout[] = []
const maxKept = 4

/** Loads and arranges one map at a time: its sample, and the positions of its points. */
export class MapRun {
  readonly phase: Signal<MapPhase> = signal('idle')
  readonly share: Signal<number> = signal(0)
  readonly fault: Signal<string | undefined> = signal(undefined)
  readonly sample: Signal<MapSample | undefined> = signal(undefined)
  readonly positions: Signal<Float32Array<ArrayBuffer>> = signal(new Float32Array())
  #loading: AbortController | undefined
  #worker: Worker | undefined
  #question = ''

  /**
   * Shows a cached layout, or computes one. A cached layout is used only if it has the attribute path of the query.
   *
   * @param isForced ignores the cache
   */
  async show(query: SampleQuery, isForced = false): Promise<void> {
    this.stop()
    this.fault.value = undefined
    const { path, ...rest } = query
    const question = JSON.stringify(rest)
    const known = isForced
      ? undefined
      : kept.find((each) => each.question === question && hasPath(each, path))
    if (known !== undefined) {
      this.sample.value = known.sample
      this.positions.value = known.positions
      this.phase.value = 'done'
      return
    }
    const loading = new AbortController()
    this.#loading = loading
    this.#question = question
    this.phase.value = 'loading'
    this.share.value = 0
    try {
      const sample = await loadSample(query, (share) => this.#progress(share), loading.signal)
      this.sample.value = sample
      this.#arrange(sample)
    } catch (error) {
      if (isAbort(error)) return
      this.fault.value = messageOf(error)
      this.phase.value = 'idle'
    }
  }

  /**
   * Shows the new payload of a point, or removes it if it was deleted. The cached layouts change too.
   *
   * @param payload undefined if the point was deleted
   */
  changePoint(id: string, payload: Payload | undefined): void {
    const shown = payload === undefined ? undefined : { ...payload, content: cutContent(payload.content) }
    for (const [index, layout] of kept.entries()) kept[index] = withChange(layout, id, shown)
    if (this.sample.value === undefined) return
    const placed = { sample: this.sample.value, positions: this.positions.value }
    const { sample, positions } = withChange(placed, id, shown)
    const isFewer = sample.points.length < placed.sample.points.length
    this.sample.value = sample
    this.positions.value = positions
    // The worker still arranges the deleted point too.
    if (isFewer && this.phase.value === 'arranging') {
      this.#worker?.terminate()
      this.#arrange(sample)
    }
  }

  /** Stops loading and arranging. A partly arranged layout stays visible. */
  stop(): void {
    this.#loading?.abort()
    this.#worker?.terminate()
    if (this.phase.value === 'arranging') this.phase.value = 'done'
    if (this.phase.value === 'loading') this.phase.value = 'idle'
  }

  #progress(share: number): void {
    this.share.value = share
  }

  #arrange({ points, neighbours }: MapSample): void {
    if (points.length === 0) {
      this.phase.value = 'done'
      return
    }
    this.phase.value = 'arranging'
    this.share.value = 0
    const worker = new Worker(new URL('../map/layout-worker.ts', import.meta.url), { type: 'module' })
    this.#worker = worker
    worker.onmessage = ({ data }: MessageEvent<LayoutMessage>) => {
      this.positions.value = data.positions
      this.share.value = data.share
      if (data.share < 1) return
      worker.terminate()
      this.phase.value = 'done'
      // The sample may have changed since the worker has started.
      keep({ question: this.#question, sample: this.sample.value!, positions: data.positions })
    }
    worker.onerror = ({ message }) => {
      this.fault.value = `The layout failed: ${message}`
      this.phase.value = 'idle'
    }
    worker.postMessage(neighbours)
  }
}

function hasPath({ sample }: Layout, path: string): boolean {
  return path === '' || sample.paths.includes(path)
}

function keep(layout: Layout): void {
  const old = kept.findIndex(({ question }) => question === layout.question)
  if (old >= 0) kept.splice(old, 1)
  kept.push(layout)
  if (kept.length > maxKept) kept.shift()
}
