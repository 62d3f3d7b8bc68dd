import { type IncludeInput, pathsMax, tooManyPaths } from '../../api/include.ts'
import { type WireReader, wireLength, wireVarint } from './wire.ts'

/** Reads an Include. */
export function readInclude(message: WireReader): IncludeInput {
  let distance = false
  let payload = false
  const attributes: string[] = []
  let vector = false
  let version = false
  while (message.next()) {
    if (message.is(1, wireVarint)) distance = message.bool()
    else if (message.is(2, wireVarint)) payload = message.bool()
    else if (message.is(3, wireLength)) addPath(attributes, message, 'include.attributes')
    else if (message.is(4, wireVarint)) vector = message.bool()
    else if (message.is(5, wireVarint)) version = message.bool()
    else message.skip()
  }
  return { distance, payload, vector, version, ...(attributes.length === 0 ? {} : { attributes }) }
}

/** Reads one of repeated paths; stops reading at the first path beyond the limit. */
export function addPath(paths: string[], message: WireReader, at: string): void {
  if (paths.length === pathsMax) throw tooManyPaths(at)
  paths.push(message.string())
}
