import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { graphFaults } from '../index/graph-check.ts'
import { linksOfGraphFile, loadGraph } from '../index/graph-file.ts'
import { GraphState, slotStates } from '../index/graph-state.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import type { Findings, Survey } from '../storage/survey.ts'

/** The result of examining stored data. */
export interface Diagnosis {
  readonly points: number
  /** Points by graph file: those that it links, and those that a start would have to link. */
  readonly graphs: readonly { readonly file: string; readonly linked: number; readonly unlinked: number }[]
  /** Damage of the points; only the first entries if there are many. */
  readonly damage: readonly string[]
  readonly damageCount: number
  /** Damage of the index on disk: the next start rebuilds it. */
  readonly staleIndex: readonly string[]
}

/** Of a collection that holds nothing. */
export const emptyDiagnosis: Diagnosis = { points: 0, graphs: [], damage: [], damageCount: 0, staleIndex: [] }

/**
 * Reads everything that is stored and checks it: the checksum of every vector and payload, that every point
 * has both and an id of its own, and of every graph file the checksums, links and that all points can be
 * reached. Changes nothing.
 */
export function examine(survey: Survey, indexDirectory: string): Diagnosis & { readonly findings: Findings } {
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

/** If no file can be read, the number does not matter: reading the complete file will report the damage. */
function linksOf(directory: string, files: readonly string[]): number {
  try {
    return files[0] === undefined ? 16 : linksOfGraphFile(join(directory, files[0]))
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
    stale.push(`${file}: there is no such segment`)
    return { file, linked: 0, unlinked: 0 }
  }
  try {
    loadGraph(segment, graph, join(directory, file))
    // Leaving slots are those that changed since the file was written: a start repairs them before it serves from the graph.
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

/** More than anybody reads; all are in the file that a repair writes. */
const listedMax = 1000

const graphFile = /^graph-(\d+)-([01])\.bin$/

function isGraphFile(name: string): boolean {
  return graphFile.test(name)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
