import { parseArgs } from 'node:util'
import { wholeNumber } from '../shared/options.ts'
import { contenderNames } from './contenders.ts'

export interface Options {
  /** A file of texts, one JSON object a line, or `debian`. */
  readonly texts: string | undefined
  readonly judged: readonly string[]
  /** An endpoint that embeds texts; undefined leaves out hybrid searches. */
  readonly embeddings: string | undefined
  readonly contenders: readonly string[]
  /** Python with the package tantivy; undefined leaves tantivy out. */
  readonly python: string | undefined
  readonly queries: number
  readonly rounds: number
}

export const usage: string = `npm run bench:words -- [options]

  --texts FILE|debian   speed: texts, one {"text": ".."} a line, or the package descriptions that apt-cache knows
  --judged FILE,FILE    relevance: {"docs": {id: text}, "queries": {id: text}, "qrels": {query: {doc: grade}}}
  --embeddings URL      hybrid searches of --judged: http://127.0.0.1:8080/v1/embeddings of examples/embeddings-server
  --contenders a,b      of ${contenderNames.join(', ')}
  --python PATH         a Python with the package tantivy (python3 -m venv v && v/bin/pip install tantivy)
  --queries 1000        queries of each kind
  --rounds 5            rounds; shows the median`

/** Parses the command line. @throws Error that names the option and the invalid value */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      texts: { type: 'string' },
      judged: { type: 'string' },
      embeddings: { type: 'string' },
      contenders: { type: 'string', default: contenderNames.join(',') },
      python: { type: 'string' },
      queries: { type: 'string', default: '1000' },
      rounds: { type: 'string', default: '5' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help || (values.texts === undefined && values.judged === undefined)) return 'help'
  return {
    texts: values.texts,
    judged: values.judged?.split(',') ?? [],
    embeddings: values.embeddings,
    contenders: values.contenders
      .split(',')
      .filter((name) => name !== 'tantivy' || values.python !== undefined),
    python: values.python,
    queries: wholeNumber('queries', values.queries),
    rounds: wholeNumber('rounds', values.rounds),
  }
}
