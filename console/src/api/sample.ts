import { sampleDimension, sampleName, samplePoints } from '../lib/sample.ts'
import { call, collectionPath } from './client.ts'

/** Creates the collection of the sample and stores it there. Safe to repeat: the key makes the insert happen once. */
export async function loadSample(withAttributes: boolean): Promise<number> {
  const path = collectionPath(sampleName)
  await call('PUT', path, { body: { dimension: sampleDimension } })
  const vectors = samplePoints().map(({ vector, content, attributes }) => ({
    vector,
    payload: { content_type: 'Text', content, ...(withAttributes ? { attributes } : {}) },
  }))
  await call('POST', `${path}/points/batch`, {
    body: { vectors },
    headers: { 'idempotency-key': `console-sample-1${withAttributes ? '-attributes' : ''}` },
  })
  return vectors.length
}
