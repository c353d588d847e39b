import { defineConfig } from "vite";

// One script and one style, without hashes in their names: Python puts both into every page.
export default defineConfig({
  base: "./",
  worker: { format: "es" },
  build: {
    outDir: "../src/plait/views/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: "src/main.ts",
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", inlineDynamicImports: true },
    },
  },
});
