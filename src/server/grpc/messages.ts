import { answerBytesMax, answerTooLarge } from '../../api/answer-size.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'
import type { BackwardWriter } from './backward-writer.ts'
import { allocateMessage } from './frames.ts'

/** Returns the writer's bytes as an answer. @param room counts the copy */
export function messageOf(writer: BackwardWriter, room?: AnswerRoom): Buffer {
  checkSize(writer)
  room?.add(writer.length)
  const bytes = writer.finish()
  const target = allocateMessage(bytes.length)
  bytes.copy(target)
  return target
}

/** @throws DatabaseError `invalid_argument` for an answer that has become too large */
export function checkSize(writer: BackwardWriter): void {
  if (writer.length > answerBytesMax) throw answerTooLarge()
}
