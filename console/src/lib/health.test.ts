import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { findingsOf } from './health.ts'
import { parseMetrics } from './prometheus.ts'

function titles(metrics: string): readonly string[] {
  return findingsOf(parseMetrics(metrics, ['vicinal_']), () => 0).map(({ title }) => title)
}

describe('the findings for a server', () => {
  it('cover named collections as they cover the default one', () => {
    assert.deepEqual(
      titles(`vicinal_points 20000
vicinal_index_waiting_points 5000
vicinal_index_recall{metric="Cosine"} 0.9
vicinal_collection_points{collection="shop"} 30000
vicinal_collection_waiting_points{collection="shop"} 9000
vicinal_collection_points{collection="quick"} 30000
vicinal_collection_waiting_points{collection="quick"} 10
vicinal_collection_recall{collection="shop",metric="Euclidean"} 0.8
vicinal_collection_recall{collection="quick",metric="Euclidean"} 1`),
      [
        'Indexing of default is behind.',
        'Indexing of shop is behind.',
        'Recall of default under Cosine is 0.900.',
        'Recall of shop under Euclidean is 0.800.',
      ],
    )
  })

  it('include collections that cannot be opened', () => {
    assert.deepEqual(titles('vicinal_damaged_collections 2'), ['2 collections cannot be opened.'])
    assert.deepEqual(titles('vicinal_damaged_collections 0'), [])
  })

  it('include memory that is nearly full, if it has a limit', () => {
    const full = ['The memory for points is nearly full.']
    assert.deepEqual(titles('vicinal_memory_bytes 95\nvicinal_memory_max_bytes 100'), full)
    assert.deepEqual(titles('vicinal_memory_bytes 80\nvicinal_memory_max_bytes 100'), [])
    assert.deepEqual(titles('vicinal_memory_bytes 95\nvicinal_memory_max_bytes 0'), [])
  })
})
