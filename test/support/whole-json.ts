import { JsonScanner } from '../../src/server/http/json-scanner.ts'

/** Reads a JSON text that contains one value and nothing else, in one turn. The service reads whole bodies in turns. */
export function whole<Input>(body: Buffer, read: (json: JsonScanner) => Input): Input {
  const json = new JsonScanner(body)
  const input = read(json)
  json.end()
  return input
}
