import { DatabaseError } from '../base/errors.ts'

/** What was found of the points of an insert does not count any more: nothing is stored, and the points are looked for again. */
export class StaleRequest extends DatabaseError {
  /** Of its record in the log. */
  readonly position: number

  constructor(position: number) {
    super('not_ready', 'nothing was stored, as other changes of the same points keep coming: try again')
    this.position = position
  }
}
