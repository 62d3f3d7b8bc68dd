import { randomUUID } from 'node:crypto'
import { closeSync, fstatSync, ftruncateSync, openSync, statSync } from 'node:fs'
import { defaultCollection, type WordLanguageChoice } from '../base/collection.ts'
import { insertCheckedOf } from '../client/bulk-insert.ts'
import type { PointsClient, VectorClient, Words } from '../client/client.ts'
import { notStoredWords } from '../import/points.ts'
import { checkReadable, type Environment, Interrupted, stopSignal, UsageError } from './arguments.ts'
import { wordsOf } from './collections.ts'
import { type ConnectionOptions, collectionOf, connect, targetOf } from './connection.ts'
import { ImportRun, Progress, type RunOptions } from './import-run.ts'
import { type ImportSource, Journal } from './journal.ts'
import { type ReaderOptions, readItems } from './readers.ts'

export interface ImportOptions extends ConnectionOptions, ReaderOptions, RunOptions {
  readonly journal?: string
  /** Repeats an import that is finished. */
  readonly again?: boolean
  /** Paths with weights: see `wordsOf`. */
  readonly wordsPaths?: readonly string[]
  readonly language?: WordLanguageChoice
}

/**
 * Stores the points of a file through the public API, and prints a summary. Each point is stored exactly once, however
 * often the command is interrupted and run again.
 */
export async function importFile(
  file: string,
  options: ImportOptions,
  environment: Environment,
): Promise<void> {
  if (file !== '-') checkReadable(file)
  if (options.texts !== undefined) checkReadable(options.texts, '--texts')
  const interruption = stopSignal().then((signal) => Promise.reject(new Interrupted(signal)))
  const client = await Promise.race([connect(options, environment), interruption])
  try {
    const finding = nameOfCollection(client, collectionOf(options, environment))
    const collection = await Promise.race([finding, interruption])
    if (options.wordsPaths !== undefined) {
      const words = wordsOf(options.wordsPaths, '--words-paths', options)
      await Promise.race([declareWords(client, collection ?? defaultCollection, words), interruption])
    } else if (options.language !== undefined) throw new UsageError('--language needs --words-paths')
    const target = inWords(targetOf(options, environment), collection)
    const points = collection === undefined ? client : client.collection(collection)
    await importInto(points, file, { ...options, target, interruption })
  } finally {
    await client.close()
  }
}

/** Declares words. What they do not name, such as the language, stays as it was. */
async function declareWords({ collections }: VectorClient, name: string, words: Words): Promise<void> {
  const { words: before } = await collections.get(name)
  await collections.put(name, { words: { ...before, ...words } })
}

/**
 * Looks up the collection of an alias, because the alias may move during the import or before it continues. Undefined
 * for the default collection.
 */
async function nameOfCollection(
  { collections }: VectorClient,
  nameOrAlias: string | undefined,
): Promise<string | undefined> {
  if (nameOrAlias === undefined) return undefined
  const { name } = await collections.get(nameOrAlias)
  return name === defaultCollection ? undefined : name
}

function inWords(service: string, collection: string | undefined): string {
  return collection === undefined ? service : `collection ${collection} of ${service}`
}

interface Import extends ImportOptions {
  /** Description of the place that the points are stored in. */
  readonly target: string
  /** Rejects when the import is stopped. */
  readonly interruption: Promise<never>
}

async function importInto(client: PointsClient, file: string, options: Import): Promise<void> {
  const { interruption } = options
  const journal =
    file === '-' ? undefined : await Promise.race([openJournal(client, file, options), interruption])
  if (options.ids !== undefined) cutIds(options.ids, journal?.done.idsBytes ?? 0)
  const progress = new Progress(file === '-' ? undefined : statSync(file).size)
  if (journal !== undefined) noteResumption(journal, progress)
  const importId = journal?.id ?? randomUUID()
  const insertChecked = insertCheckedOf(client)
  const run = new ImportRun({ insertChecked, options, journal, importId, progress })
  const notStored = new Map<string, number>()
  const startedMs = performance.now()
  try {
    const items = readItems(file, options, journal?.startedMs, notStored)
    await Promise.race([run.all(items), interruption])
  } catch (error) {
    progress.stop()
    noteStored(run, journal)
    throw error
  } finally {
    progress.stop()
  }
  journal?.finish()
  console.log(summaryOf(run, (performance.now() - startedMs) / 1000))
  const leftOut = notStoredWords(notStored)
  if (leftOut !== undefined)
    console.error(notStored.has('id') ? `${leftOut}; --keep-ids stores ids` : leftOut)
}

function noteResumption({ done, sent, partlyStored }: Journal, progress: Progress): void {
  const later = partlyStored.length
  if (done.records + sent.length + later === 0) return
  const beyond = later === 0 ? '' : `; of the others, ${later} are stored`
  progress.note(`continuing after record ${done.records}, by the journal${beyond}`)
  if (sent.length === 0) return
  progress.note(
    `${sent.length} batches (of records ${sent[0]!.after + 1} to ${sent.at(-1)!.end}) were sent and not answered: they are sent again with the same keys, so that none is stored twice`,
  )
}

/** Prints how many points are stored, and how to continue. */
function noteStored({ stored }: ImportRun, journal: Journal | undefined): void {
  if (journal === undefined) {
    if (stored > 0) console.error(`the first ${stored} points of standard input are stored`)
    return
  }
  const { points, sent } = journal
  if (points + sent.length === 0) return
  const inDoubt = sent.length === 0 ? '' : `, ${sent.length} batches were sent and not answered`
  console.error(`${points} points are stored${inDoubt}; the same command continues after them`)
}

function openJournal(client: PointsClient, file: string, options: Import): Promise<Journal> {
  const source = { file, target: options.target, flags: flagsOf(options) }
  return Journal.open(options.journal ?? `${file}.vicinal-import`, source, {
    again: options.again ?? false,
    storedOf: (ids) => client.count({ $id: { $in: [...ids] } }, { consistency: 'latest' }),
    note: (text) => console.error(text),
  })
}

/** The flags that affect the stored points, by their names. */
function flagsOf(options: Import): ImportSource['flags'] {
  const { format, separator, dimension, scale, normalize } = options
  const given = {
    format,
    separator,
    dimension,
    scale,
    normalize,
    'vector-column': options.vectorColumn,
    'vector-prefix': options.vectorPrefix,
    'content-column': options.contentColumn,
    'id-column': options.idColumn,
    'attribute-columns': options.attributeColumns?.join(','),
    'text-columns': options.textColumns?.join(','),
    embed: options.embed,
  }
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as ImportSource['flags']
}

/** Truncates the file of ids to its length in the journal. The ids after that will be appended again. */
function cutIds(path: string, bytes: number): void {
  const file = openSync(path, 'a')
  try {
    const { size } = fstatSync(file)
    if (size < bytes)
      throw new Error(`${path} has ${size} bytes, but the import that continues had written ${bytes}`)
    ftruncateSync(file, bytes)
  } finally {
    closeSync(file)
  }
}

function summaryOf({ stored, skipped, vectorBytes }: ImportRun, seconds: number): string {
  const rate = Math.round(stored / seconds)
  const megabytes = (vectorBytes / 1e6 / seconds).toFixed(1)
  const bad = skipped > 0 ? `, ${skipped} bad records skipped` : ''
  return `${stored} points in ${seconds.toFixed(1)} s (${rate} points/s, ${megabytes} MB/s of vectors)${bad}`
}
