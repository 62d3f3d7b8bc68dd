import { attributesToJson, DateTime, formatDateTime, jsonNumbers } from '../../../src/base/attributes.ts'
import type { NewPoint } from '../../../src/base/point.ts'

/** A point as the server's JSON. Its numbers are exact. */
export function pointJson({ id, vector, payload }: NewPoint): string {
  const { contentType, content, attributes, expiresAtUs } = payload
  const fields = [
    `"content_type":"${contentType}"`,
    `"content":${JSON.stringify(content)}`,
    ...(attributes === undefined ? [] : [`"attributes":${attributesToJson(attributes)}`]),
    ...(expiresAtUs === undefined ? [] : [`"expires_at":"${formatDateTime(new DateTime(expiresAtUs))}"`]),
  ]
  const ownId = id === undefined ? '' : `"id":"${id}",`
  return `{${ownId}"vector":${jsonNumbers(vector)},"payload":{${fields.join(',')}}}`
}
