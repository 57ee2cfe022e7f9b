// What CI holds the page's script to.
import js from "@eslint/js";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist/", "dist-tests/", "node_modules/"] },
  js.configs.recommended,
  ...ts.configs.strict,
  {
    files: ["**/*.ts"],
    rules: {
      "max-lines": ["error", 600],
      "max-lines-per-function": ["error", 90],
      "@typescript-eslint/no-non-null-assertion": "error",
      // The page shows names that anybody may have chosen.
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "use text" },
        { property: "outerHTML", message: "use text" },
        { property: "insertAdjacentHTML", message: "use text" },
      ],
    },
  },
  { files: ["**/*.mjs"], languageOptions: { globals: { process: "readonly" } } },
);
