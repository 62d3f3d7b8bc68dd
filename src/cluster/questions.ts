import { fromBytes, toBytes } from '../base/plain-values.ts'
import { inTurns } from '../base/turns.ts'
import { NothingDone } from './requests.ts'

/**
 * What nodes ask each other, as values, like calls between threads: both ends have the same types. What is stored, such
 * as a record of the log, has messages of proto/cluster.proto instead, and so has what carries the questions.
 */

/**
 * The form of all questions and their answers. Nodes of two programs may run while a cluster is upgraded, so whoever
 * renames a field of these types, or gives it another meaning, counts this up: nodes then refuse each other's questions
 * in place of misunderstanding them. A new field that others may ignore changes nothing.
 */
const form = 1

export async function encodeQuestion(question: object): Promise<Buffer> {
  return await inTurns(toBytes({ form, ...question }))
}

/** @throws NothingDone for a question of another form: whoever answers decodes it first */
export async function decodeQuestion<Question extends object>(bytes: Buffer): Promise<Question> {
  const question = (await inTurns(fromBytes(bytes))) as Question & { readonly form: number }
  if (question.form === form) return question
  throw new NothingDone(
    'the nodes of the cluster run programs that do not understand each other: upgrade all of them',
  )
}
