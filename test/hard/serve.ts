/** `vicinal serve` that has graphs for collections of any size, so that few short vectors show what they do. */
import { serve } from '../../src/cli/serve.ts'
import type { EngineOptions } from '../../src/collections/engine.ts'
import { type Config, readConfig, settingSources } from '../../src/config.ts'

const config: Config & Pick<EngineOptions, 'graphBytesMin'> = { ...readConfig(process.env), graphBytesMin: 0 }
await serve(config, settingSources(process.env, {}), process.env)
