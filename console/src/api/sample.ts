import { sampleDimension, sampleName, samplePoints } from '../lib/sample.ts'
import { call, collectionPath } from './client.ts'

/** Creates the sample collection and stores the sample in it. Idempotent: the key makes a repeated insert a no-op. */
export async function loadSample(): Promise<number> {
  const path = collectionPath(sampleName)
  await call('PUT', path, { body: { dimension: sampleDimension } })
  const vectors = samplePoints().map(({ vector, content, attributes }) => ({
    vector,
    payload: { content_type: 'Text', content, attributes },
  }))
  await call('POST', `${path}/points/batch`, {
    body: { vectors },
    headers: { 'idempotency-key': 'console-sample-1-attributes' },
  })
  return vectors.length
}
