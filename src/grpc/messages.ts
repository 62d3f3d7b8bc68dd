import { answerBytesMax, answerTooLarge } from '../api/answer-size.ts'
import type { BackwardWriter } from './backward-writer.ts'
import { allocateMessage } from './frames.ts'

/** Returns the writer's bytes as an answer. */
export function messageOf(writer: BackwardWriter): Buffer {
  checkSize(writer)
  const bytes = writer.finish()
  const target = allocateMessage(bytes.length)
  bytes.copy(target)
  return target
}

/** @throws DatabaseError `invalid_argument` for an answer that has become too large */
export function checkSize(writer: BackwardWriter): void {
  if (writer.length > answerBytesMax) throw answerTooLarge()
}
