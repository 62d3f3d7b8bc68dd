import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { graphFaults } from '../index/graph-check.ts'
import { linksOfGraphFile, loadGraph } from '../index/graph-file.ts'
import { GraphState, slotStates } from '../index/graph-state.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import type { DirectorySurvey, Findings, repair, Survey } from '../storage/check/survey.ts'
import type { CollectionRecord } from '../storage/store.ts'

/** The result of examining stored data. */
export interface Diagnosis {
  readonly points: number
  /** By graph file: points that the graph links, and points that a start would have to link. */
  readonly graphs: readonly { readonly file: string; readonly linked: number; readonly unlinked: number }[]
  /** Damage to points; only the first entries if there are many. */
  readonly damage: readonly string[]
  readonly damageCount: number
  /** Damage to the index on disk; the next start rebuilds it. */
  readonly staleIndex: readonly string[]
}

/** The diagnosis of an empty collection. */
const emptyDiagnosis: Diagnosis = { points: 0, graphs: [], damage: [], damageCount: 0, staleIndex: [] }

/**
 * Reads and checks everything that is stored: the checksum of every vector and payload, that every point has both and a
 * unique id, and for every graph file its checksums, its links and that all points can be reached. Changes nothing.
 */
function examine(survey: Survey, indexDirectory: string): Diagnosis & { readonly findings: Findings } {
  const staleIndex: string[] = []
  const files = existsSync(indexDirectory) ? readdirSync(indexDirectory).filter(isGraphFile).sort() : []
  const { dimension, slotCount } = survey.meta
  const index = dimension === undefined ? undefined : indexFor(dimension, indexDirectory, files)
  const findings = survey.read(({ slot, vector, sequence }) => index!.place(slot, vector, sequence))
  index?.extend(slotCount)
  const graphs =
    index === undefined ? [] : files.map((file) => readGraph(index, indexDirectory, file, staleIndex))
  return { points: findings.points, graphs, ...damageOf(findings), staleIndex, findings }
}

function damageOf({ faults, damage }: Findings): Pick<Diagnosis, 'damage' | 'damageCount'> {
  const listed = damage
    .slice(0, listedMax)
    .map(({ slot, id, fault }) => `point ${id ?? '(its id is lost)'} in slot ${slot}: ${fault}`)
  return { damage: [...faults, ...listed], damageCount: faults.length + damage.length }
}

function indexFor(dimension: number, directory: string, files: readonly string[]): VectorIndex {
  return new VectorIndex({
    dimension,
    kernels: loadKernels(),
    maxThreads: 1,
    maxLimit: 10_000,
    m: linksOf(directory, files),
    efConstruction: 8,
  })
}

/** If no file can be read, the value does not matter: the damage is reported when the file is read. */
function linksOf(directory: string, files: readonly string[]): number {
  try {
    return (files[0] && linksOfGraphFile(join(directory, files[0]))) || 16
  } catch {
    return 16
  }
}

function readGraph(
  index: VectorIndex,
  directory: string,
  file: string,
  stale: string[],
): { readonly file: string; readonly linked: number; readonly unlinked: number } {
  const [ordinal, graph] = graphFile.exec(file)!.slice(1).map(Number) as [number, number]
  const segment = index.segments[ordinal]
  if (segment === undefined) {
    stale.push(`${file}: its segment does not exist`)
    return { file, linked: 0, unlinked: 0 }
  }
  try {
    loadGraph(segment, graph, join(directory, file))
    // Slots in the leaving state changed since the file was written. A start repairs them before the graph serves
    // searches.
    stale.push(...graphFaults(segment, graph).map((fault) => `${file}: ${fault}`))
  } catch (error) {
    stale.push(`${file}: ${messageOf(error)}`)
  }
  const { states, slotCount } = new GraphState(segment, graph)
  let linked = 0
  let live = 0
  for (let slot = 0; slot < slotCount; slot += 1) {
    if (!index.isLive(segment.firstSlot + slot)) continue
    live += 1
    if (states[slot] === slotStates.linked) linked += 1
  }
  return { file, linked, unlinked: live - linked }
}

/** More than anybody reads; a repair writes all of them to its file. */
const listedMax = 1000

const graphFile = /^graph-(\d+)-([01])\.bin$/

function isGraphFile(name: string): boolean {
  return graphFile.test(name)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The result of examining a data directory: its default collection and any named ones. */
export interface DirectoryDiagnosis extends Diagnosis {
  readonly collections?: readonly CollectionDiagnosis[]
}

interface CollectionDiagnosis extends Diagnosis {
  readonly name: string
  /** The file with the remains of the points that were set aside. */
  readonly setAside?: string
  /** Set if nothing in the collection can be read. */
  readonly isBeyondRepair?: true
}

/**
 * Examines all collections, one after another.
 *
 * @param act called for each damaged collection; returns the file with the points that were set aside
 * @returns the diagnosis, and that file for the default collection
 */
export async function examineDirectory(
  survey: DirectorySurvey,
  indexDirectory: string,
  act?: typeof repair,
): Promise<{ readonly diagnosis: DirectoryDiagnosis; readonly file: string | undefined }> {
  const { file, ...main } = await examineOne(survey.main, indexDirectory, act)
  const collections: CollectionDiagnosis[] = []
  for (const record of survey.collections) collections.push(await examineNamed(survey, record, act))
  return { diagnosis: { ...main, ...(collections.length > 0 ? { collections } : {}) }, file }
}

type Examined = Diagnosis & { readonly file?: string | undefined }

async function examineOne(survey: Survey, indexDirectory: string, act?: typeof repair): Promise<Examined> {
  const { findings, ...diagnosis } = examine(survey, indexDirectory)
  const file = diagnosis.damageCount > 0 ? await act?.(survey, findings) : undefined
  return { ...diagnosis, file }
}

async function examineNamed(
  survey: DirectorySurvey,
  record: CollectionRecord,
  act?: typeof repair,
): Promise<CollectionDiagnosis> {
  const { name } = record
  let points: Survey
  try {
    points = survey.collection(record)
  } catch (error) {
    const damage = [error instanceof Error ? error.message : String(error)]
    return { name, ...emptyDiagnosis, damage, damageCount: 1, isBeyondRepair: true }
  }
  using opened = points
  const { file, ...diagnosis } = await examineOne(opened, survey.indexDirectory(record), act)
  return { name, ...diagnosis, ...(file === undefined ? {} : { setAside: file }) }
}
