import { DatabaseError } from '../base/errors.ts'

/** The points found for an insert are out of date: nothing is stored, and the points are looked up again. */
export class StaleRequest extends DatabaseError {
  /** The position of the request's record in the log. */
  readonly position: number

  constructor(position: number) {
    super('not_ready', 'nothing was stored, because the same points keep changing: try again')
    this.position = position
  }
}
