import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { apiRoot, messageOf } from '../api/client.ts'
import { loadSample } from '../api/sample.ts'
import { sampleName, samplePoints } from '../lib/sample.ts'
import { Button, Code, Fault, Panel, Segments } from '../parts/basics.tsx'
import { report } from '../parts/toast.tsx'
import { loadCollections } from '../state/collections.ts'
import { hrefOf, navigate } from '../state/route.ts'
import { key } from '../state/session.ts'

/** The first steps on a server that has no points yet. */
export function FirstSteps(): JSX.Element {
  const language = useSignal<Language>('curl')
  const busy = useSignal(false)
  const fault = useSignal<string | undefined>(undefined)
  const load = async (): Promise<void> => {
    busy.value = true
    fault.value = undefined
    try {
      const count = await loadSample()
      await loadCollections()
      report(`Stored ${count} colours in the collection ${sampleName}.`)
      navigate('search', { c: sampleName, by: 'vector', vector: '60,60,40', metric: 'Euclidean' })
    } catch (error) {
      fault.value = messageOf(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <div class="first-steps">
      <Panel title="Try it with a sample" class="first-sample">
        <p>
          {samplePoints().length} named colours. Each vector holds the CIELAB coordinates of a colour, so you
          can see that near points look alike. No model is needed.
        </p>
        <Swatches />
        <Fault text={fault.value} />
        <div class="actions">
          <Button kind="primary" icon="download" disabled={busy.value} onClick={load}>
            Load the sample
          </Button>
          <span class="muted">
            Creates the collection <code>{sampleName}</code>.
          </span>
        </div>
      </Panel>
      <Panel
        title="Store and search your own points"
        actions={
          <Segments
            label="Language"
            options={languages}
            value={language.value}
            onChange={(chosen) => {
              language.value = chosen
            }}
          />
        }
      >
        <Code text={examples[language.value](apiRoot.href.replace(/\/$/, ''))} label="the example" />
        <p class="muted below">
          Have a file? <a href={hrefOf('import')}>Import it</a>. The{' '}
          <a href="../docs" target="_blank" rel="noreferrer">
            API reference
          </a>{' '}
          describes all calls.
        </p>
      </Panel>
    </div>
  )
}

const languages = [
  ['curl', 'curl'],
  ['typescript', 'TypeScript'],
  ['python', 'Python'],
] as const
type Language = (typeof languages)[number][0]

const examples: Readonly<Record<Language, (url: string) => string>> = {
  curl: (url) => `curl -s ${url}/points \\
  -H 'content-type: application/json'${keyOption()} -d '{
  "vector": [0.12, -0.5, 0.33],
  "payload": {"content_type": "Text", "content": "a small fox"}
}'

curl -s ${url}/points/search \\
  -H 'content-type: application/json'${keyOption()} -d '{
  "vector": [0.1, -0.4, 0.3], "similarity": "Cosine", "limit": 5
}'`,
  typescript: (url) => `import { createHttpClient } from 'vicinal-client'

const client = createHttpClient({ baseUrl: '${url}'${key.value === undefined ? '' : ', apiKey: process.env.KEY!'} })
await client.insert({
  vector: [0.12, -0.5, 0.33],
  payload: { contentType: 'Text', content: 'a small fox' },
})
const ids = await client.search({ vector: [0.1, -0.4, 0.3], metric: 'Cosine', limit: 5 })`,
  python: (url) => `${key.value === undefined ? '' : 'import os\n'}from vicinal import Vicinal

client = Vicinal("${url}"${key.value === undefined ? '' : ', api_key=os.environ["KEY"]'})
client.insert([0.12, -0.5, 0.33], "a small fox")
for hit in client.search([0.1, -0.4, 0.3], "Cosine", limit=5).hits:
    print(hit.distance, hit.content)`,
}

function keyOption(): string {
  return key.value === undefined ? '' : ' -H "authorization: $KEY"'
}

/** A decorative strip of the sample's colours, drawn by the style sheet. */
function Swatches(): JSX.Element {
  return <div class="swatches" aria-hidden="true" />
}
