import { attributesFromJson } from '../base/attribute-json.ts'
import { dateTimeWords, parseDateTime } from '../base/datetime.ts'
import { isWellFormedId } from '../base/ids.ts'
import type { Payload } from '../base/point.ts'
import { type Item, noVector, type Outcome, outcomeOf, type ReaderOptions } from './items.ts'
import { linesOf } from './lines.ts'
import { parseWithDigits, roundedNumberIn } from './whole-numbers.ts'

/** Reads points from lines of JSON; `-` is standard input. */
export async function* readJsonLines(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const name = file === '-' ? 'standard input' : file
  let number = 0
  let bytes = 0
  for await (const line of linesOf(file)) {
    number += 1
    bytes += line.bytes
    const where = `${name}:${number}`
    const text = number === 1 ? line.text?.replace(/^\ufeff/, '') : line.text
    if (text?.trim() === '') continue
    yield { where, bytes, ...(text === undefined ? { fault: 'not UTF-8' } : parsed(text, options)) }
    bytes = 0
  }
}

/** Parses a line in the documented format, or a point that `vicinal get` printed. */
function parsed(line: string, options: ReaderOptions): Outcome {
  let record: unknown
  try {
    record = JSON.parse(line)
  } catch (error) {
    return { fault: `not JSON: ${(error as Error).message}` }
  }
  const {
    id,
    vector = options.embed ? noVector : undefined,
    content,
    content_type: contentType = 'Text',
    attributes,
    expires_at: expiresAt,
  } = fieldsOf(record)
  if (!Array.isArray(vector) || !vector.every((each) => typeof each === 'number')) {
    return { fault: '`vector` is not an array of numbers' }
  }
  if (typeof content !== 'string') return { fault: '`content` is not a string' }
  if (contentType !== 'Text' && contentType !== 'Image') {
    return { fault: '`content_type` is not Text or Image' }
  }
  if (options.keepIds && !(typeof id === 'string' && isWellFormedId(id)))
    return { fault: '`id` is not a UUID' }
  try {
    const payload = {
      contentType,
      content,
      ...(attributes === undefined
        ? {}
        : { attributes: attributesIn(attributes, () => fieldsOf(parseWithDigits(line)).attributes) }),
      ...(expiresAt === undefined ? {} : { expiresAtUs: microsecondsIn(expiresAt) }),
    } as const
    return outcomeOf(vector, payload, options, options.keepIds ? String(id).toLowerCase() : undefined)
  } catch (error) {
    return { fault: (error as Error).message }
  }
}

/** The fields of a point, whether or not some of them are in its payload. */
function fieldsOf(record: unknown): Record<string, unknown> {
  const { payload, ...fields } = (record ?? {}) as Record<string, unknown>
  return { ...fields, ...(payload ?? {}) }
}

/**
 * Reads attributes in the format of `export`. null means absent.
 *
 * @param exact returns the attributes from `parseWithDigits`
 * @throws Error that describes the fault
 */
export function attributesIn(value: unknown, exact: () => unknown): NonNullable<Payload['attributes']> {
  const rounded = roundedNumberIn(value, exact, 'attributes')
  if (rounded !== undefined) throw new Error(rounded)
  const text = JSON.stringify(value, function (this: unknown, _, each: unknown) {
    return each === null && !Array.isArray(this) ? undefined : each
  })
  try {
    return attributesFromJson(text)
  } catch {
    throw new Error(
      '`attributes` is not an object with values, like {"price": 5, "at": {"$date": "2026-01-31T00:00:00Z"}}',
    )
  }
}

export function microsecondsIn(value: unknown): number {
  const moment = typeof value === 'string' ? parseDateTime(value) : undefined
  if (moment === undefined) throw new Error(`\`expires_at\` is not ${dateTimeWords}`)
  return moment.us
}
