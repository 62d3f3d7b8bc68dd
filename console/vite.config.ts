import { defineConfig, type UserConfig } from 'vite'

// Relative addresses, so that the console also works behind a proxy that serves it under another path.
const config: UserConfig = defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../src/server/http/generated/console',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The page's content security policy allows data: only for images.
    assetsInlineLimit: 0,
  },
  worker: {
    // ES modules let the worker load the reader of each file format from a separate file, when it is needed.
    format: 'es',
    rolldownOptions: {
      treeshake: {
        // The index of hyparquet-compressors also loads a WebAssembly decoder. Nothing here uses it, and the page's
        // content security policy forbids it.
        moduleSideEffects: (id) => !id.includes('/hyparquet-compressors/') && !id.includes('/hysnappy/'),
      },
    },
  },
})

export default config
