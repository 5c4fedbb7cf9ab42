// Shows the document that this service serves. Nothing is loaded from elsewhere,
// and no key is asked for: it belongs on servers, not in a browser.
Scalar.createApiReference("#reference", {
  url: "/docs/openapi.json",
  theme: "none",
  layout: "modern",
  withDefaultFonts: false,
  telemetry: false,
  hideTestRequestButton: true,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  persistAuth: false,
  documentDownloadType: "none",
  orderSchemaPropertiesBy: "preserve",
  orderRequiredPropertiesFirst: true,
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hiddenClients: {
    c: true, clojure: true, csharp: ["restsharp"], dart: true, fsharp: true, java: ["asynchttp", "nethttp", "unirest"],
    js: true, kotlin: true, node: ["axios", "ofetch", "undici"], objc: true, ocaml: true, php: ["guzzle"], powershell: true,
    python: ["aiohttp", "httpx_async", "httpx_sync", "python3"], r: true, rust: true, shell: ["httpie", "wget"], swift: true,
  },
  customCss: `
    :root { --scalar-font: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
      --scalar-font-code: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
      --scalar-radius: 6px; --scalar-radius-lg: 10px; }
    .light-mode { --scalar-color-1: #16202c; --scalar-color-2: #43505f; --scalar-color-3: #62707f; --scalar-color-accent: #0f766e;
      --scalar-background-1: #ffffff; --scalar-background-2: #f5f7f8; --scalar-background-3: #e9edf0; --scalar-background-accent: #0f766e14;
      --scalar-border-color: #e0e6ea; --scalar-color-green: #0d7a4f; --scalar-color-red: #c22b3a; --scalar-color-yellow: #96660a;
      --scalar-color-blue: #1c62b9; --scalar-color-orange: #b4540a; --scalar-color-purple: #6d3fc0;
      --scalar-button-1: #16202c; --scalar-button-1-color: #ffffff; --scalar-button-1-hover: #000000;
      --scalar-scrollbar-color: #0000002e; --scalar-scrollbar-color-active: #0000005c; }
    .dark-mode { --scalar-color-1: #edf2f5; --scalar-color-2: #b3bfc9; --scalar-color-3: #8b99a5; --scalar-color-accent: #4fd1bd;
      --scalar-background-1: #0f1418; --scalar-background-2: #161d22; --scalar-background-3: #212a31; --scalar-background-accent: #4fd1bd1f;
      --scalar-border-color: #263038; --scalar-color-green: #4cc38a; --scalar-color-red: #f2727f; --scalar-color-yellow: #e5b454;
      --scalar-color-blue: #6cb2f7; --scalar-color-orange: #f09a55; --scalar-color-purple: #b79af2;
      --scalar-button-1: #edf2f5; --scalar-button-1-color: #0f1418; --scalar-button-1-hover: #ffffff;
      --scalar-scrollbar-color: #ffffff2e; --scalar-scrollbar-color-active: #ffffff5c; }
    .light-mode .t-doc__sidebar, .dark-mode .t-doc__sidebar { --scalar-sidebar-background-1: var(--scalar-background-1);
      --scalar-sidebar-color-1: var(--scalar-color-1); --scalar-sidebar-color-2: var(--scalar-color-2);
      --scalar-sidebar-color-active: var(--scalar-color-accent); --scalar-sidebar-item-active-background: var(--scalar-background-accent);
      --scalar-sidebar-item-hover-background: var(--scalar-background-2); --scalar-sidebar-border-color: var(--scalar-border-color);
      --scalar-sidebar-search-background: var(--scalar-background-2); --scalar-sidebar-search-border-color: var(--scalar-border-color);
      --scalar-sidebar-search-color: var(--scalar-color-3); }
    /* The guide is read like a page, with its code in full width. */
    .scalar-reference-intro-clients { display: none; }
    @media (min-width: 1000px) {
      .section-columns:has(.introduction-description) > .section-column:first-child { flex: 1 1 auto; max-width: 780px; }
      .section-columns:has(.introduction-description) > .section-column:last-child { flex: 0 0 250px; }
    }
    .markdown pre, .markdown pre code { font-size: 13px; line-height: 1.6; }
  `,
});
