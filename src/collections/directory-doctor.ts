import type { DirectorySurvey } from '../storage/directory-survey.ts'
import type { repair } from '../storage/repair.ts'
import type { CollectionRecord } from '../storage/store.ts'
import type { Survey } from '../storage/survey.ts'
import { type Diagnosis, emptyDiagnosis, examine } from './doctor.ts'

/** The result of examining a data directory: its default collection and any named ones. */
export interface DirectoryDiagnosis extends Diagnosis {
  readonly collections?: readonly CollectionDiagnosis[]
}

export interface CollectionDiagnosis extends Diagnosis {
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
  const { file, ...main }: Examined =
    survey.main === undefined ? emptyDiagnosis : await examineOne(survey.main, indexDirectory, act)
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
