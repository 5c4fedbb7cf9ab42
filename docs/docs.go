// Package docs has the pages that the program itself shows. It contains no code, and a crash
// leaves nothing.
package docs

import _ "embed" // the pages

// Integrate is the guide for integrators, in Markdown: /docs shows it above the
// reference, and a test runs every command and every program in it.
//
//go:embed integrate.md
var Integrate string

// Operator is the guide for those who run the service, in Markdown: /docs of the
// operator's listener shows it above that reference.
//
//go:embed operator.md
var Operator string

// Testing says how to try things in the local world, in Markdown.
//
//go:embed testing.md
var Testing string

// Errors has a cause and a cure for every error code, in Markdown. A test draws it.
//
//go:embed errors.md
var Errors string

// Changelog says what changed, in Markdown.
//
//go:embed CHANGELOG.md
var Changelog string
