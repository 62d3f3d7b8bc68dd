import { defineConfig, type UserConfig } from 'vite'

// Relative addresses: the console also works behind a proxy that serves it below another path.
const config: UserConfig = defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../src/http/generated/console',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The policy of the page allows data: for images only.
    assetsInlineLimit: 0,
  },
  worker: {
    // Readers of formats are files of their own, loaded when they are needed.
    format: 'es',
    rolldownOptions: {
      treeshake: {
        // Its index also loads a decoder in WebAssembly, which nothing here uses and the policy of the page forbids.
        moduleSideEffects: (id) => !id.includes('/hyparquet-compressors/') && !id.includes('/hysnappy/'),
      },
    },
  },
})

export default config
