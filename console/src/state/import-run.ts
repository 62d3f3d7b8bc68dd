import { type Signal, signal } from '@preact/signals'
import type { Mapping } from '../../../src/import/mapping.ts'
import { lastingIds, type SampledPoint, sampleWith } from '../../../src/import/points.ts'
import { apiRoot, call, collectionPath } from '../api/client.ts'
import {
  type JournalEntry,
  journalName,
  readJournal,
  removeJournal,
  writeJournal,
} from '../import/journal.ts'
import {
  type FromWorker,
  type Inspection,
  keptFaults,
  type PreviewRow,
  type Progress,
  type RowFault,
  type ToWorker,
} from '../import/messages.ts'
import { key } from './session.ts'

export type Phase = 'reading' | 'ready' | 'refused' | 'running' | 'paused' | 'done' | 'stopped' | 'failed'

/** An earlier import of the same file into the collection. `lost`: some of its points are no longer stored. */
export interface EarlierImport extends JournalEntry {
  readonly kind: 'interrupted' | 'finished' | 'lost'
}

/** The import of one file into a collection. Each import has its own worker. */
export class ImportRun {
  readonly file: File
  readonly collection: string
  readonly phase: Signal<Phase> = signal('reading')
  readonly inspection: Signal<Inspection | undefined> = signal(undefined)
  readonly stored: Signal<number> = signal(0)
  readonly readBytes: Signal<number> = signal(0)
  readonly faults: Signal<readonly RowFault[]> = signal([])
  readonly faultCount: Signal<number> = signal(0)
  readonly waiting: Signal<string | undefined> = signal(undefined)
  readonly message: Signal<string | undefined> = signal(undefined)
  readonly preview: Signal<readonly PreviewRow[]> = signal([])
  /** The columns that were left out, when the import is done. */
  readonly notStored: Signal<string | undefined> = signal(undefined)
  readonly earlier: Signal<EarlierImport | undefined> = signal(undefined)
  readonly #journal: string
  #worker: Worker
  #importId = ''
  #startedMs = 0
  #sample: readonly SampledPoint[] = []
  #mapping: Mapping | undefined
  #place = 0
  /** The points stored by earlier runs of this import. */
  #storedBefore = 0
  /** The faults of rows up to `#place`: of earlier runs, and of all. */
  #faultsBefore = 0
  #faultsToPlace = 0

  constructor(file: File, collection: string) {
    this.file = file
    this.collection = collection
    this.#journal = journalName(file, collection)
    this.#worker = this.#open()
    this.#findEarlier()
  }

  async #findEarlier(): Promise<void> {
    const entry = readJournal(this.#journal)
    if (entry === undefined) return
    const ids = lastingIds(entry.sample)
    const body = { filter: { $id: { $in: ids } } }
    const path = `${collectionPath(this.collection)}/points/count`
    const { count } = await call<{ readonly count: number }>('POST', path, { body }).catch(() => ({
      // The import itself reports a server that does not respond.
      count: ids.length,
    }))
    if (count === 0 && ids.length > 0) return removeJournal(this.#journal)
    const kind = entry.isFinished ? 'finished' : count < ids.length ? 'lost' : 'interrupted'
    this.earlier.value = { ...entry, kind }
  }

  /** Shows the first rows as points. */
  showPreview(mapping: Mapping): void {
    this.#tell({ kind: 'preview', mapping })
  }

  /** Stores all rows, including any that an earlier import has stored. */
  start(mapping: Mapping): void {
    this.#importId = randomText()
    this.#startedMs = Date.now()
    this.#sample = []
    this.#place = 0
    this.#storedBefore = 0
    this.#run(mapping)
  }

  /** Resumes the interrupted import of this file, with its mapping. */
  resumeInterrupted(): void {
    const entry = this.earlier.value!
    this.#importId = entry.importId
    this.#startedMs = entry.startedMs
    this.#sample = entry.sample
    this.#place = entry.place
    this.#storedBefore = entry.stored
    this.#faultsToPlace = entry.faultCount
    this.faults.value = entry.faults
    this.#run(entry.mapping)
  }

  /**
   * Resumes after a failure or a stop. If the response to a batch was lost, the server recognizes the batch by its key.
   */
  tryAgain(): void {
    this.#worker.terminate()
    this.#storedBefore = this.stored.value
    // Rows that were read but not yet stored are read again, and their faults are reported again.
    this.faults.value = this.#faultsShownToPlace()
    this.message.value = undefined
    this.#worker = this.#open()
    this.phase.value = 'running'
  }

  pause(): void {
    if (this.phase.value !== 'running') return
    this.phase.value = 'paused'
    this.#tell({ kind: 'pause' })
  }

  resume(): void {
    if (this.phase.value !== 'paused') return
    this.phase.value = 'running'
    this.#tell({ kind: 'resume' })
  }

  stop(): void {
    this.#tell({ kind: 'stop' })
  }

  close(): void {
    this.#worker.terminate()
  }

  #open(): Worker {
    const worker = new Worker(new URL('../import/worker.ts', import.meta.url), { type: 'module' })
    worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => this.#hear(data))
    worker.addEventListener('error', () => {
      this.phase.value = 'failed'
      this.message.value =
        'The code that imports files could not be loaded. The server may have been updated: reload the page.'
    })
    worker.postMessage({ kind: 'inspect', file: this.file } satisfies ToWorker)
    return worker
  }

  #tell(message: ToWorker): void {
    this.#worker.postMessage(message)
  }

  #run(mapping: Mapping): void {
    this.#mapping = mapping
    this.phase.value = 'running'
    this.stored.value = this.#storedBefore
    this.#faultsBefore = this.#faultsToPlace
    this.faultCount.value = this.#faultsBefore
    this.#tell({
      kind: 'start',
      job: {
        mapping,
        url: new URL(`${collectionPath(this.collection)}/points/batch`, apiRoot).href,
        key: key.peek(),
        importId: this.#importId,
        startedMs: this.#startedMs,
        after: this.#place,
      },
    })
  }

  #hear(message: FromWorker): void {
    if (message.kind === 'inspected') {
      this.inspection.value = message.inspection
      // The phase is already `running` if this worker reopened the file to resume.
      if (this.phase.value === 'running') this.#run(this.#mapping!)
      else this.phase.value = 'ready'
    } else if (message.kind === 'refused') {
      this.phase.value = 'refused'
      this.message.value = message.message
    } else if (message.kind === 'preview') this.preview.value = message.rows
    else if (message.kind === 'progress') this.#note(message.progress)
    else if (message.kind === 'done') {
      this.phase.value = 'done'
      this.readBytes.value = this.file.size
      this.notStored.value = message.notStored
      this.#writeJournal(true)
    } else {
      this.phase.value = message.isStopped ? 'stopped' : 'failed'
      this.message.value = message.isStopped ? undefined : message.message
    }
  }

  #note(progress: Progress): void {
    const { stored, readBytes, place, last, faults, faultCount, faultCountToPlace, waiting } = progress
    this.stored.value = this.#storedBefore + stored
    this.readBytes.value = readBytes
    this.faultCount.value = this.#faultsBefore + faultCount
    if (faults.length > 0) this.faults.value = [...this.faults.value, ...faults].slice(0, keptFaults)
    this.waiting.value = waiting
    if (place === this.#place) return
    this.#place = place
    this.#faultsToPlace = this.#faultsBefore + faultCountToPlace
    this.#sample = sampleWith(this.#sample, last)
    this.#writeJournal(false)
  }

  #faultsShownToPlace(): readonly RowFault[] {
    return this.faults.value.filter(({ place }) => place <= this.#place)
  }

  #writeJournal(isFinished: boolean): void {
    writeJournal(this.#journal, {
      importId: this.#importId,
      mapping: this.#mapping!,
      startedMs: this.#startedMs,
      place: this.#place,
      stored: this.stored.value,
      faults: this.#faultsShownToPlace(),
      faultCount: this.#faultsToPlace,
      atMs: Date.now(),
      sample: this.#sample,
      isFinished,
    })
  }
}

/** A random id. `crypto.randomUUID` exists only on https and localhost. */
function randomText(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join('')
}
